# Motion between events: the same for all models.

mutable struct Motion
    p::Vector{Float64}
    m::Vector{Float64}
    stuck::Vector{Bool}
    held::Vector{Float64}
    left::Vector{Bool}
    at::Float64
end

"""Refuse a time at which the measured drives are not known."""
function require_known(t)
    near = all(isfinite, REACH) ? 1e-9 * (REACH[2] - REACH[1]) : 0.0
    REACH[1] - near <= t <= REACH[2] + near || error("t = $t s: $LIMIT.")
    return t
end

"""Measured drives and their rates at t, by the polynomials that hold at the time `at` nearby."""
function drives(t, at)
    require_known(at)
    u, du = zeros(length(TABLES)), zeros(length(TABLES))
    for (i, table) in enumerate(TABLES)
        turns = table.period > 0 ? floor(at / table.period) : 0.0
        k = clamp(searchsortedlast(table.knots, at - turns * table.period), 1, size(table.coefficients, 1))
        s = t - turns * table.period - table.knots[k]
        for j in size(table.coefficients, 2):-1:1
            u[i] = u[i] * s + table.coefficients[k, j]
            if j > 1
                du[i] = du[i] * s + (j - 1) * table.coefficients[k, j]
            end
        end
    end
    return u, du
end

"""The first knot of the measured drives after t."""
function next_knot(t)
    isempty(KNOTS) && return Inf
    if isfinite(REACH[2])
        k = searchsortedlast(KNOTS, t + 1e-12 * (KNOTS[end] - KNOTS[1])) + 1
        return k <= length(KNOTS) ? KNOTS[k] : Inf
    end
    period = KNOTS[end]
    turns = floor(t / period)
    k = searchsortedlast(KNOTS, t - turns * period + 1e-12 * period) + 1
    return k <= length(KNOTS) ? KNOTS[k] + turns * period : KNOTS[2] + (turns + 1) * period
end

function just_after(t)
    knot = next_knot(t)
    return isfinite(knot) ? t + 1e-3 * (knot - t) : t
end

"""Rates of the states; those of stuck switches keep s = 0."""
function field!(d, x, q::Motion, t)
    u, du = drives(t, q.at)
    m = ifelse.(q.stuck, 1.0, q.m)
    rates!(d, t, x, u, q.p, m)
    k = findall(q.stuck)
    isempty(k) && return d
    n = length(q.m)
    base = surfaces(t, x, u, du, q.p, m, d)
    halves, gains = zeros(length(d), length(k)), zeros(length(k), length(k))
    other = similar(d)
    for (j, i) in enumerate(k)
        m[i] = -1.0
        rates!(other, t, x, u, q.p, m)
        s = surfaces(t, x, u, du, q.p, m, other)
        halves[:, j] = (d .- other) ./ 2
        gains[:, j] = (base[n .+ k] .- s[n .+ k]) ./ 2
        m[i] = 1.0
    end
    change = -(gains \ base[n .+ k])
    q.held[k] = 1 .+ change
    d .+= halves * change
    return d
end

"""Switching functions and walls, their rates times the modes, and the functions watched for a fall to zero."""
function watch(q::Motion, t, x)
    d = zeros(length(x))
    field!(d, x, q, t)
    u, du = drives(t, q.at)
    n = length(q.m)
    s = surfaces(t, x, u, du, q.p, ifelse.(q.stuck, q.held, q.m), d)
    walls = div(length(s) - 2n, 2)
    value = vcat(s[1:n], s[2n+1:2n+walls])
    signs = vcat(q.m, ones(walls))
    slope = signs .* vcat(s[n+1:2n], s[2n+walls+1:end])
    watched = ifelse.(signs .== 0, 1.0, signs .* value)
    for i in findall(q.stuck)
        watched[i] = 1 - abs(q.held[i])
    end
    return value, slope, watched
end

"""Rate of a switching function with its mode at +1 and at -1."""
function sides(q::Motion, t, x, i)
    was, stuck = q.m[i], q.stuck[i]
    q.stuck[i] = false
    q.m[i] = 1.0
    above = watch(q, t, x)[2][i]
    q.m[i] = -1.0
    below = -watch(q, t, x)[2][i]
    q.m[i], q.stuck[i] = was, stuck
    return above, below
end

"""Modes that follow from others: releases, functions that jumped with a mode inside, functions that vanish."""
function settle!(q::Motion, t, x)
    near = 1e-12 * (1 + maximum(abs, x))
    for _ in 1:4*length(q.m)+4
        value, slope, _ = watch(q, t, x)
        changed = false
        for i in eachindex(q.m)
            if q.stuck[i]
                abs(q.held[i]) <= 1 + 1e-12 && abs(value[i]) <= 1e4 * near && continue
                q.stuck[i], q.m[i], q.left[i], changed = false, sign(q.held[i]), true, true
                break
            end
            if CAN_VANISH[i] && value[i] == 0 && slope[i] == 0 && sides(q, t, x, i) == (0.0, 0.0)
                q.m[i] == 0 && continue
                q.m[i], changed = 0.0, true
                break
            end
            if q.m[i] == 0
                q.m[i] = value[i] != 0 ? sign(value[i]) : (sides(q, t, x, i)[1] > 0 ? 1.0 : -1.0)
                changed = true
                break
            end
            if q.m[i] * value[i] < -near
                q.m[i], changed = sign(value[i]), true
                break
            end
        end
        changed || return q
    end
    error("The modes of the switches do not settle at t = $t.")
end

"""The motion at the first instant."""
function Motion(t, x, p)
    n = length(CAN_STICK)
    q = Motion(copy(p), ones(n), fill(false, n), zeros(n), fill(false, n + WALLS), just_after(t))
    for i in 1:n
        value = watch(q, t, x)[1][i]
        if abs(value) > 1e-12 * (1 + maximum(abs, x))
            q.m[i] = sign(value)
            continue
        end
        above, below = sides(q, t, x, i)
        if CAN_STICK[i] && above < 0 < below
            q.stuck[i] = true
        else
            q.left[i] = true
            q.m[i] = above > 0 || (above == 0 && below >= 0) ? 1.0 : -1.0
        end
    end
    return settle!(q, t, x)
end

"""The event of surface i; the state is changed in place."""
function happen!(q::Motion, i, t, x)
    n = length(q.m)
    if i > n
        before = abs(watch(q, t, x)[2][i])
        x .= reset(i - n, t, x, drives(t, q.at)[1], q.p, q.m)
        if watch(q, t, x)[2][i] <= 1e-9 * (1 + before)
            error("Impacts die out at t = $t: lasting contact is not exported.")
        end
        q.left[i] = true
    elseif q.stuck[i]
        watch(q, t, x)
        q.stuck[i], q.m[i], q.left[i] = false, sign(q.held[i]), true
    else
        above, below = CAN_STICK[i] ? sides(q, t, x, i) : (1.0, 1.0)
        q.stuck[i] = above < 0 < below
        if !q.stuck[i]
            q.m[i] = -q.m[i]
        end
        q.left[i] = !q.stuck[i]
    end
    return settle!(q, t, x)
end

"""States at increasing times, one column each; `changes` are values of parameters by name."""
function simulate(times; x0 = START, changes = Dict{String,Float64}(), tolerance = 1e-12)
    p = [get(changes, name, value) for (name, value) in zip(PARAMETERS, VALUES)]
    foreach(require_known, (times[1], times[end]))
    q = Motion(times[1], x0, p)
    events = length(CAN_STICK) + WALLS
    watched!(out, x, t, integrator) = (out .= watch(q, t, x)[3])
    function falls!(integrator, i)
        happen!(q, i, integrator.t, integrator.u)
        u_modified!(integrator, true)
    end
    function turns!(integrator)
        q.at = just_after(integrator.t)
        settle!(q, integrator.t, integrator.u)
        u_modified!(integrator, true)
    end
    knots = Float64[]
    t = next_knot(times[1])
    while t < times[end]
        push!(knots, t)
        t = next_knot(t)
    end
    callbacks = Any[]
    events > 0 && push!(callbacks, VectorContinuousCallback(watched!, (i, k) -> nothing, falls!, events))
    isempty(knots) || push!(callbacks, PresetTimeCallback(knots, turns!))
    problem = ODEProblem((d, x, _, s) -> field!(d, x, q, s), copy(x0), (times[1], times[end]))
    longest = events > 0 && PERIOD > 0 ? PERIOD / 50 : times[end] - times[1]
    solution = solve(problem, Vern9(); reltol = tolerance, abstol = tolerance, saveat = times,
                     callback = CallbackSet(callbacks...), dtmax = longest)
    return reduce(hcat, solution.(times))
end

"""The equations as a system of ModelingToolkit, for models without switches, walls and measured drives."""
function system()
    isempty(CAN_STICK) && WALLS == 0 && isempty(TABLES) || error("Events and measured drives need `simulate`.")
    right(d, x, p, t) = rates!(d, t, x, Float64[], p, Float64[])
    return modelingtoolkitize(ODEProblem(right, START, (0.0, 1.0), VALUES))
end
