% ---- Motion between events: the same for all models. ----

function q = motion_(t, x, p)
  c = constants_();
  q = struct('p', p, 'm', ones(c.switches, 1), 'stuck', false(c.switches, 1), 'held', zeros(c.switches, 1), ...
             'left', false(c.switches + c.walls, 1), 'at', just_after_(t));
  for i = 1:c.switches
    value = watch_(q, t, x);
    if abs(value(i)) > 1e-12 * (1 + max(abs(x)))
      q.m(i) = sign(value(i));
      continue
    end
    [above, below] = sides_(q, t, x, i);
    if c.can_stick(i) && above < 0 && below > 0
      q.stuck(i) = true;
    else
      q.left(i) = true;
      q.m(i) = 2 * (above > 0 || (above == 0 && below >= 0)) - 1;
    end
  end
  q = settle_(q, t, x);
end

function [d, held] = field_(q, t, x)
  % Rates of the states; those of stuck switches keep s = 0.
  [u, du] = drives_(t, q.at);
  held = q.held;
  m = q.m;
  m(q.stuck) = 1;
  d = rates_(t, x, u, q.p, m);
  if ~any(q.stuck)
    return
  end
  k = find(q.stuck);
  n = numel(q.m);
  base = surfaces_(t, x, u, du, q.p, m, d);
  halves = zeros(numel(d), numel(k));
  gains = zeros(numel(k));
  for j = 1:numel(k)
    m(k(j)) = -1;
    other = rates_(t, x, u, q.p, m);
    s = surfaces_(t, x, u, du, q.p, m, other);
    halves(:, j) = (d - other) / 2;
    gains(:, j) = (base(n + k) - s(n + k)) / 2;
    m(k(j)) = 1;
  end
  change = -gains \ base(n + k);
  held(k) = 1 + change;
  d = d + halves * change;
end

function [value, slope, watched, held] = watch_(q, t, x)
  % Switching functions and walls, their rates times the modes, and the functions watched for a fall to zero.
  [d, held] = field_(q, t, x);
  [u, du] = drives_(t, q.at);
  n = numel(q.m);
  m = q.m;
  m(q.stuck) = held(q.stuck);
  s = surfaces_(t, x, u, du, q.p, m, d);
  walls = (numel(s) - 2 * n) / 2;
  value = s([1:n, 2*n+1:2*n+walls]);
  signs = [q.m; ones(walls, 1)];
  slope = signs .* s([n+1:2*n, 2*n+walls+1:end]);
  watched = signs .* value;
  watched(signs == 0) = 1;
  watched(q.stuck) = 1 - abs(held(q.stuck));
end

function [above, below] = sides_(q, t, x, i)
  % Rate of a switching function with its mode at +1 and at -1.
  q.stuck(i) = false;
  q.m(i) = 1;
  [~, slope] = watch_(q, t, x);
  above = slope(i);
  q.m(i) = -1;
  [~, slope] = watch_(q, t, x);
  below = -slope(i);
end

function q = settle_(q, t, x)
  % Modes that follow from others: releases, functions that jumped with a mode inside, functions that vanish.
  c = constants_();
  size = 1 + max(abs(x));
  for round = 1:4*c.switches+4
    [value, slope, ~, held] = watch_(q, t, x);
    changed = false;
    for i = 1:c.switches
      if q.stuck(i)
        if abs(held(i)) <= 1 + 1e-12 && abs(value(i)) <= 1e-8 * size
          continue
        end
        q.stuck(i) = false; q.m(i) = sign(held(i)); q.left(i) = true; changed = true;
        break
      end
      if c.can_vanish(i) && value(i) == 0 && slope(i) == 0
        [above, below] = sides_(q, t, x, i);
        if above == 0 && below == 0
          if q.m(i) == 0, continue, end
          q.m(i) = 0; changed = true;
          break
        end
      end
      if q.m(i) == 0
        above = sides_(q, t, x, i);
        if value(i) ~= 0, q.m(i) = sign(value(i)); else, q.m(i) = 2 * (above > 0) - 1; end
        changed = true;
        break
      end
      if q.m(i) * value(i) < -1e-12 * size
        q.m(i) = sign(value(i)); changed = true;
        break
      end
    end
    if ~changed, return, end
  end
  error('kapitza:modes', 'The modes of the switches do not settle at t = %.9g.', t);
end

function [q, x] = happen_(q, i, t, x)
  % The event of surface i.
  c = constants_();
  if i > c.switches
    [~, slope] = watch_(q, t, x);
    before = abs(slope(i));
    x = reset_(i - c.switches, t, x, drives_(t, q.at), q.p, q.m);
    [~, slope] = watch_(q, t, x);
    if slope(i) <= 1e-9 * (1 + before)
      error('kapitza:contact', 'Impacts die out at t = %.9g: lasting contact is not exported.', t);
    end
    q.left(i) = true;
  elseif q.stuck(i)
    [~, ~, ~, held] = watch_(q, t, x);
    q.stuck(i) = false; q.m(i) = sign(held(i)); q.left(i) = true;
  else
    above = 1; below = 1;
    if c.can_stick(i), [above, below] = sides_(q, t, x, i); end
    q.stuck(i) = above < 0 && below > 0;
    if ~q.stuck(i), q.m(i) = -q.m(i); end
    q.left(i) = ~q.stuck(i);
  end
  q = settle_(q, t, x);
end

function [value, terminal, direction] = events_(q, t, x)
  % For ode45: a surface just left starts near zero and counts from a little below.
  [~, ~, watched] = watch_(q, t, x);
  value = watched + 1e-9 * q.left * (1 + max(abs(x)));
  terminal = true(size(value));
  direction = -ones(size(value));
end

function [d, held] = rates_at_(q, t, x)
  % Rates for solvers of your own, which need not stop at the knots of measured drives.
  [d, held] = field_(follow_(q, t), t, x);
end

function [value, terminal, direction] = events_at_(q, t, x)
  [value, terminal, direction] = events_(follow_(q, t), t, x);
end

function [q, x] = happen_at_(q, i, t, x)
  [q, x] = happen_(follow_(q, t), i, t, x);
end

function q = follow_(q, t)
  % The polynomials of q.at hold up to the next knot; beyond or before their interval those at t do.
  c = constants_();
  if isempty(c.knots), return, end
  near = 1e-12 * (c.knots(end) - c.knots(1));
  knot = next_knot_(q.at);
  if t > knot + near || next_knot_(t) < knot - near, q.at = just_after_(t); end
end

function x = to_(q, from, x, t)
  % The state at t, without events.
  if t > from
    settings = odeset('RelTol', 1e-13, 'AbsTol', 1e-14);
    [~, X] = ode45(@(s, y) field_(q, s, y), [from, t], x, settings);
    x = X(end, :).';
  end
end

function [t, x] = located_(q, i, from, x0, t)
  % Zero of a watched surface near t, by Newton steps from the last accepted state.
  x = to_(q, from, x0, t);
  for round = 1:12
    [~, slope, watched] = watch_(q, t, x);
    rate = slope(i);
    if i <= numel(q.stuck) && q.stuck(i)
      h = 1e-6 * max(1e-3, t - from);
      [~, ~, later] = watch_(q, t + h, to_(q, t, x, t + h));
      rate = (later(i) - watched(i)) / h;
    end
    next = max(from, t - watched(i) / rate);
    if ~isfinite(next) || abs(next - t) <= 1e-15 * (1 + abs(t)), break, end
    t = next;
    x = to_(q, from, x0, t);
  end
end

function X = run_(times, x, p)
  c = constants_();
  require_known_(times(1));
  require_known_(times(end));
  X = zeros(numel(times), numel(x));
  X(1, :) = x.';
  t = times(1);
  q = motion_(t, x, p);
  done = 1;
  settings = {'RelTol', 1e-12, 'AbsTol', 1e-13, 'Refine', 1};
  if c.period > 0 && c.switches > 0, settings = [settings, {'MaxStep', c.period / 50}]; end
  while done < numel(times)
    knot = next_knot_(t);
    stop = min(knot, times(done + 1));
    q.at = t;
    if isfinite(knot), q.at = (t + knot) / 2; end
    i = 0;
    if stop - t <= 1e-14 * (1 + abs(stop))
      % A sample and a knot apart by rounding: ode45 takes no such step.
      T = stop;
      Y = x.';
    elseif c.switches + c.walls > 0
      [~, ~, watched] = watch_(q, t, x);
      due = find(watched <= 0 & ~q.left, 1);
      if ~isempty(due) && falls_(q, t, x, due)
        [q, x] = happen_(q, due, t, x);
        continue
      end
      options = odeset(settings{:}, 'Events', @(s, y) events_(q, s, y));
      [T, Y, te, ~, ie] = ode45(@(s, y) field_(q, s, y), [t, stop], x, options);
      if ~isempty(te) && te(end) > t && te(end) < stop
        i = ie(end);
      end
    else
      [T, Y] = ode45(@(s, y) field_(q, s, y), [t, stop], x, odeset(settings{:}));
    end
    if i > 0
      last = find(T < te(end), 1, 'last');
      [t, x] = located_(q, i, T(last), Y(last, :).', te(end));
      [q, x] = happen_(q, i, t, x);
      continue
    end
    if T(end) < stop
      error('kapitza:step', 'Integration stopped at t = %.9g.', T(end));
    end
    t = stop;
    x = Y(end, :).';
    if c.switches + c.walls > 0
      [~, ~, watched] = watch_(q, t, x);
      q.left(watched > 1e-12 * (1 + max(abs(x)))) = false;
    end
    if stop == knot
      q.at = just_after_(t);
      q = settle_(q, t, x);
    end
    if t >= times(done + 1)
      done = done + 1;
      X(done, :) = x.';
    end
  end
end

function yes = falls_(q, t, x, i)
  [~, slope] = watch_(q, t, x);
  yes = slope(i) < 0 || (i <= numel(q.stuck) && q.stuck(i));
end

function t = just_after_(t)
  knot = next_knot_(t);
  if isfinite(knot), t = t + 1e-3 * (knot - t); end
end

function knot = next_knot_(t)
  % The first knot of the measured drives after t.
  c = constants_();
  knot = Inf;
  if isempty(c.knots), return, end
  if ~isempty(c.reach)
    k = find(c.knots > t + 1e-12 * (c.knots(end) - c.knots(1)), 1);
    if ~isempty(k), knot = c.knots(k); end
    return
  end
  period = c.knots(end);
  turns = floor(t / period);
  k = find(c.knots > t - turns * period + 1e-12 * period, 1);
  if isempty(k), knot = c.knots(2) + (turns + 1) * period; else, knot = c.knots(k) + turns * period; end
end

function require_known_(t)
  % Refuses a time at which the measured drives are not known.
  c = constants_();
  if isempty(c.reach), return, end
  near = 1e-9 * (c.reach(2) - c.reach(1));
  if ~(t >= c.reach(1) - near && t <= c.reach(2) + near)
    error('kapitza:drive', 't = %.9g s: %s.', t, c.limit);
  end
end

function [u, du] = drives_(t, at)
  % Measured drives and their rates, by the polynomials that hold at the time `at` nearby.
  c = constants_();
  require_known_(at);
  n = numel(c.tables);
  u = zeros(n, 1);
  du = zeros(n, 1);
  for i = 1:n
    table = c.tables{i};
    turns = 0;
    if table.period > 0, turns = floor(at / table.period); end
    k = find(table.knots <= at - turns * table.period, 1, 'last');
    k = min(max([k, 1]), size(table.coefficients, 1));
    local = t - turns * table.period - table.knots(k);
    for j = size(table.coefficients, 2):-1:1
      u(i) = u(i) * local + table.coefficients(k, j);
      if j > 1, du(i) = du(i) * local + (j - 1) * table.coefficients(k, j); end
    end
  end
end

function value = pick_(condition, yes, no)
  if condition, value = yes(); else, value = no(); end
end
