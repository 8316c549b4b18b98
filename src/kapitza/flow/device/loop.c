/* One thread follows one trajectory: DOP853 with located events. Plain C below this shim, so that a C compiler checks it.

   Written before this text, from the model: N states, K tangent columns, VOLUME (1: the integral of the divergence),
   P parameters, C constants, TAILS, WALLS, SWITCHES, JOB, ANGLES, and the functions kz_parameters, kz_constants,
   kz_rates, kz_tails, kz_surfaces, kz_surface_slopes, kz_reset. M = N + N K + VOLUME equations. */

#define SURFACES (WALLS + SWITCHES)
#define DONE 0
#define DIVERGED 1
#define GIVEN_BACK 2
#define STEPS_OUT 3

/* Fractions of the speed of a surface below which a hit is a graze, or a rebound the end of a chatter. */
#define GRAZE 1e-7
#define REBOUND 1e-5
#define MOST_TRIALS 80
/* Part of its size, or of 1, by which a step may change an argument of a tail (see tails.py): at rest far from the
   place where exp(-g) acts, all stages see nothing and the error is zero. */
#define LEAP 0.5
#define TURN 6.283185307179586

KZ_INLINE double kz_max(double a, double b) { return a > b ? a : b; }

KZ_INLINE int kz_wrap(double *y) {
    int turned = 0;
    for (int i = 0; i < N; i++)
        if ((ANGLES >> i) & 1) {
            const double turns = rint(y[i] / TURN);
            if (turns != 0.0) { y[i] -= TURN * turns; turned = 1; }
        }
    return turned;
}

#if SURFACES
/* Smallest value of the cubic through (0, a, a') and (h, b, b'), inside; with a = 0 that of the cubic over time. */
KZ_INLINE double kz_lowest(double a, double da, double b, double db, double h, int left) {
    const double c2 = (3.0 * (b - a) - h * (2.0 * da + db)) / (h * h);
    const double c3 = (2.0 * (a - b) + h * (da + db)) / (h * h * h);
    double lowest = left ? kz_max(b, 0.0) / h : b;
    if (left) {
        const double at = c3 != 0.0 ? -c2 / (2.0 * c3) : -1.0;
        if (at > 0.0 && at < h) lowest = fmin(lowest, da + at * (c2 + at * c3));
        return fmin(lowest, da) * h;
    }
    const double d = c2 * c2 - 3.0 * c3 * da;
    if (d <= 0.0) return fmin(a, b);
    /* Both roots without cancellation: the cubic of a parabola has c3 of the size of rounding. */
    const double q = -(c2 + (c2 < 0.0 ? -sqrt(d) : sqrt(d)));
    for (int s = 0; s < 2; s++) {
        const double over = s ? q : 3.0 * c3, at = over != 0.0 ? (s ? da : q) / over : -1.0;
        if (at > 0.0 && at < h) lowest = fmin(lowest, a + at * (da + at * (c2 + at * c3)));
    }
    return fmin(lowest, a);
}

/* First zero of the same cubic, from the left, by bisection: the trial steps refine it. */
KZ_INLINE double kz_first_zero(double a, double da, double b, double db, double h, int left) {
    const double c2 = (3.0 * (b - a) - h * (2.0 * da + db)) / (h * h);
    const double c3 = (2.0 * (a - b) + h * (da + db)) / (h * h * h);
    double low = left ? 1e-3 * h : 0.0, high = h;
    for (int i = 1; i <= 8; i++) {
        const double at = h * i / 8.0;
        if (at > low && a + at * (da + at * (c2 + at * c3)) <= 0.0) { high = at; break; }
        if (at > low) low = at;
    }
    for (int i = 0; i < 20; i++) {
        const double at = 0.5 * (low + high);
        if (a + at * (da + at * (c2 + at * c3)) > 0.0) low = at; else high = at;
    }
    return 0.5 * (low + high);
}

/* Values of the surfaces, positive on the side of the motion, and their rates along it. */
KZ_INLINE void kz_sides(const double *y, double t, const double *p, const double *m, const double *f, double *g, double *dg) {
    double slopes[SURFACES * (N + 1)];
    kz_surfaces(y, t, p, g);
    kz_surface_slopes(y, t, p, slopes);
    for (int j = 0; j < SURFACES; j++) {
        double rate = slopes[j * (N + 1) + N];
        for (int i = 0; i < N; i++) rate += slopes[j * (N + 1) + i] * f[i];
        const double side = j < WALLS ? 1.0 : m[j - WALLS];
        g[j] *= side;
        dg[j] = side * rate;
    }
}

#if VOLUME
/* ln|det| of a small matrix (N, N), by elimination with pivots; the matrix is lost. */
KZ_INLINE double kz_log_determinant(double *a) {
    double sum = 0.0;
    for (int k = 0; k < N; k++) {
        int best = k;
        for (int i = k + 1; i < N; i++) if (fabs(a[i * N + k]) > fabs(a[best * N + k])) best = i;
        for (int j = 0; j < N; j++) { const double x = a[k * N + j]; a[k * N + j] = a[best * N + j]; a[best * N + j] = x; }
        sum += log(fabs(a[k * N + k]));
        for (int i = k + 1; i < N; i++) {
            const double factor = a[i * N + k] / a[k * N + k];
            for (int j = k; j < N; j++) a[i * N + j] -= factor * a[k * N + j];
        }
    }
    return sum;
}
#endif

/* The event at surface j: reset or change of mode, tangents by the saltation matrix. 0 where it cannot be passed here. */
KZ_INLINE int kz_pass(int j, double *y, double t, const double *p, const double *c, double *m, double *f) {
    double slopes[SURFACES * (N + 1)], after[N], F[M], jump[N], rx[N * (N + 1)];
    kz_surface_slopes(y, t, p, slopes);
    double speed = 0.0, size = fabs(slopes[j * (N + 1) + N]);
    for (int i = 0; i < N; i++) {
        speed += slopes[j * (N + 1) + i] * f[i];
        size += fabs(slopes[j * (N + 1) + i] * f[i]);
    }
    speed += slopes[j * (N + 1) + N];
    if (!(fabs(speed) > GRAZE * (1e-6 + size))) return 0;
    for (int i = 0; i < N; i++) after[i] = y[i];
    for (int i = 0; i < N * (N + 1); i++) rx[i] = 0.0;
    for (int i = 0; i < N; i++) rx[i * (N + 1) + i] = 1.0;
    if (j < WALLS) kz_reset(j, y, t, p, after, rx);
    else m[j - WALLS] = -m[j - WALLS];
    double full[M];
    for (int i = 0; i < M; i++) full[i] = y[i];
    for (int i = 0; i < N; i++) full[i] = after[i];
    kz_rates(full, t, p, c, m, F);
    for (int i = 0; i < N; i++) {
        double carried = rx[i * (N + 1) + N];
        for (int k = 0; k < N; k++) carried += rx[i * (N + 1) + k] * f[k];
        jump[i] = (F[i] - carried) / speed;
    }
    for (int col = 0; col < K; col++) {
        double v[N], along = 0.0;
        for (int i = 0; i < N; i++) { v[i] = y[N + i * K + col]; along += slopes[j * (N + 1) + i] * v[i]; }
        for (int i = 0; i < N; i++) {
            double sum = jump[i] * along;
            for (int k = 0; k < N; k++) sum += rx[i * (N + 1) + k] * v[k];
            full[N + i * K + col] = sum;
        }
    }
#if VOLUME
    double salt[N * N];
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++) salt[i * N + k] = rx[i * (N + 1) + k] + jump[i] * slopes[j * (N + 1) + k];
    full[M - 1] += kz_log_determinant(salt);
#endif
    for (int i = 0; i < M; i++) y[i] = full[i];
    kz_rates(y, t, p, c, m, f);
    /* The motion must leave the surface: otherwise it sticks, or the wall holds it. */
    double g[SURFACES], dg[SURFACES];
    kz_sides(y, t, p, m, f, g, dg);
    return dg[j] > (j < WALLS ? REBOUND : GRAZE) * (1e-6 + size);
}
#endif

#if JOB == JOB_GROWTH && K
/* Orthonormal columns; ln of their lengths is added to logs. */
KZ_INLINE void kz_orthonormal(double *v, double *logs) {
    for (int j = 0; j < K; j++) {
        /* Gram-Schmidt twice: after one pass nearly parallel columns are not orthogonal to rounding. */
        for (int pass = 0; pass < 2; pass++)
            for (int k = 0; k < j; k++) {
                double inside = 0.0;
                for (int i = 0; i < N; i++) inside += v[i * K + k] * v[i * K + j];
                for (int i = 0; i < N; i++) v[i * K + j] -= inside * v[i * K + k];
            }
        double sum = 0.0;
        for (int i = 0; i < N; i++) sum += v[i * K + j] * v[i * K + j];
        const double length = sqrt(sum);
        logs[j] += log(length);
        for (int i = 0; i < N; i++) v[i * K + j] /= length;
    }
}
#endif

KZ_KERNEL void kz_follow(
    long count, const double *starts, const double *shared, const double *own, const double *begins,
    const double *lengths, const int *wholes, const double *rests, double tolerance, int max_steps, int each,
    const int *setup, const double *nets, double *out, int *marks, int *turns)
{
    const long thread = KZ_INDEX;
    if (thread >= count) return;
    double y[M], p[P + C + 1], m[SWITCHES + 1], f[M];
    kz_parameters(shared, own, thread, count, p);
    kz_constants(p, p + P);
    const double *c = p + P;
    for (int i = 0; i < M; i++) y[i] = 0.0;
    for (int i = 0; i < N; i++) y[i] = starts[i * count + thread];
    const long at = each ? thread : 0;
    const double begin = begins[at], length = lengths[at], rest = rests[at];
    const int parts = setup[0], whole = wholes[at] * parts;
    const int stretches = whole + (rest > 0.0 ? 1 : 0);
    int status = DONE, stretch = 0, label = -1;
    double t = begin, end = stretch < whole ? begin + length / parts : begin + rest, h = (end - begin) * 0.01;
#if JOB == JOB_STROBE
    for (int i = 0; i < N; i++) turns[i * count + thread] = 0;
#endif
#if JOB == JOB_GROWTH
    double logs[N], volume = 0.0;
    for (int i = 0; i < N; i++) logs[i] = 0.0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < K; j++) y[N + i * K + j] = nets[i * N + j];
    const int skip = setup[1] * parts, per_block = setup[2] * parts;
#elif K
    for (int i = 0; i < N; i++)
        for (int j = 0; j < K; j++) y[N + i * K + j] = i == j ? 1.0 : 0.0;
#endif
    kz_wrap(y);
    for (int i = 0; i < SWITCHES; i++) m[i] = 1.0;
#if SURFACES
    double g[SURFACES], dg[SURFACES], g1[SURFACES], dg1[SURFACES];
    int left[SURFACES], locating = -1, trials = 0;
    double low = 0.0, high = 0.0, trial = 0.0;
    kz_surfaces(y, t, p, g);
    for (int j = 0; j < SURFACES; j++) {
        left[j] = 0;
        if (j >= WALLS && g[j] < 0.0) m[j - WALLS] = -1.0;
        if (j < WALLS ? !(g[j] > 1e-12) : !(fabs(g[j]) > 1e-12)) status = GIVEN_BACK;
    }
    kz_rates(y, t, p, c, m, f);
    kz_sides(y, t, p, m, f, g, dg);
#else
    kz_rates(y, t, p, c, m, f);
#endif
    int step = 0;
    /* One flat loop over the steps of all stretches: the threads of a warp meet at each step, not at each stretch. */
    while (status == DONE && stretch < stretches) {
        if (++step > max_steps) { status = STEPS_OUT; break; }
#if MAP
        double z[M];
        kz_rates(y, t, p, c, m, z);
        int last = 1;
        double size = 0.0;
        for (int i = 0; i < M; i++) { y[i] = z[i]; size = i < N ? kz_max(size, fabs(z[i])) : size; }
        if (!(size < 1e100)) { status = DIVERGED; break; }
#else
        double now = h;
        int last = 0;
        /* Steps end on the stretch: half a step is lost in 10 to 30, dense output would cost more. */
        if (t + h * 1.0000001 >= end) { now = end - t; last = 1; }
#if SURFACES
        if (locating >= 0) { now = trial; last = 0; }
#endif
        double z[M], k[STAGES][M];
        KZ_STAGES
        /* The squares of scales must be finite: at rest at zero the error is zero, no number is lost. */
        double size = 1e-140, wide = 1e-140, e5 = 0.0, e3 = 0.0;
        for (int i = 0; i < N; i++) size = kz_max(size, kz_max(fabs(y[i]), fabs(z[i])));
        for (int i = N; i < N + N * K; i++) wide = kz_max(wide, kz_max(fabs(y[i]), fabs(z[i])));
        for (int i = 0; i < N + N * K; i++) {
            /* States and tangents have separate scales: large tangents must not loosen the error of the states. */
            const double scale = 1.0 / (tolerance * (i < N ? size : wide));
            double a = 0.0, b = 0.0;
            KZ_ERRORS
            e5 += a * a * scale * scale;
            e3 += b * b * scale * scale;
        }
        /* The error estimates of orders 5 and 3 of DOP853, combined (Hairer, Norsett, Wanner, Solving ODEs I, II.10). */
        const double error = now * e5 / sqrt((e5 + 0.01 * e3) * (N + N * K) + 1e-300);
        /* A diverging thread would hold its warp. */
        if (!(size < 1e100)) { status = DIVERGED; break; }
#if SURFACES
        if (locating < 0)
#endif
        {
            if (!(error <= 1.0)) {
                if (!(now > 1e-13 * (end - begin))) { status = error == error ? GIVEN_BACK : DIVERGED; break; }
                h = now * (error == error ? kz_max(0.2, 0.9 * KZ_ROOT8(error)) : 0.1);
                continue;
            }
            double grown = error > 1e-9 ? fmin(5.0, 0.9 * KZ_ROOT8(error)) : 5.0;
#if TAILS
            double before[TAILS], after[TAILS], leap = 0.0;
            kz_tails(y, t, p, m, before);
            kz_tails(z, t + now, p, m, after);
            for (int i = 0; i < TAILS; i++)
                leap = kz_max(leap, fabs(after[i] - before[i]) / (LEAP * kz_max(1.0, fabs(before[i]))));
            if (leap > 1.0 && now > 1e-13 * (end - begin)) { h = now * kz_max(0.1, 0.8 / leap); continue; }
            grown = fmin(grown, 0.8 / (leap + 0.1));
#endif
            if (!last || grown < 1.0) h = now * grown; else h = kz_max(h, now * fmin(grown, 1.0));
        }
        double f1[M];
        kz_rates(z, t + now, p, c, m, f1);
        int hit = -1;
#if SURFACES
        kz_sides(z, t + now, p, m, f1, g1, dg1);
        if (locating < 0) {
            double first = now;
            int doubtful = 0;
            for (int j = 0; j < SURFACES; j++) {
                const double margin = 0.02 * now * (fabs(dg[j]) + fabs(dg1[j]));
                if (g1[j] <= 0.0) {
                    const double zero = kz_first_zero(g[j], dg[j], g1[j], dg1[j], now, left[j]);
                    if (zero <= first) { first = zero; hit = j; }
                } else if (kz_lowest(g[j], dg[j], g1[j], dg1[j], now, left[j]) <= (left[j] ? 0.0 : fmin(margin, 0.5 * fmin(g[j], g1[j])))
                           && kz_lowest(g[j], dg[j], g1[j], dg1[j], now, left[j]) < 0.5 * g1[j]) doubtful = 1;
            }
            if (hit >= 0 || doubtful) {
                if (doubtful) {
                    /* A surface may be met twice within the step, or touched: a shorter one shows it. */
                    if (!(now > 1e-7 * (end - begin))) { status = GIVEN_BACK; break; }
                    h = 0.4 * now;
                    continue;
                }
                locating = hit; low = 0.0; high = now; trial = first; trials = 0;
                continue;
            }
        } else {
            const int j = locating;
            for (int other = 0; other < SURFACES; other++)
                if (other != j && g1[other] <= 0.0 && g1[j] > 0.0) {
                    locating = other; high = trial;
                    trial = kz_first_zero(g[other], dg[other], g1[other], dg1[other], now, left[other]);
                    break;
                }
            if (++trials > MOST_TRIALS) { status = GIVEN_BACK; break; }
            if (locating != j) { low = 0.0; continue; }
            const double move = dg1[j] != 0.0 ? -g1[j] / dg1[j] : 0.0;
            if (fabs(move) > 4e-16 * (fabs(t) + now) && high - low > 4e-16 * (fabs(t) + now)) {
                if (g1[j] > 0.0) low = now; else high = now;
                trial = now + move;
                if (!(trial > low && trial < high)) trial = 0.5 * (low + high);
                continue;
            }
            hit = j;
            locating = -1;
        }
#endif
        for (int i = 0; i < M; i++) { y[i] = z[i]; f[i] = f1[i]; }
        t = last ? end : t + now;
#if SURFACES
        for (int j = 0; j < SURFACES; j++) { g[j] = g1[j]; dg[j] = dg1[j]; left[j] = 0; }
        if (hit >= 0) {
            for (int j = 0; j < SURFACES; j++) if (j != hit && !(g[j] > 1e-11)) status = GIVEN_BACK;
            if (status != DONE || !kz_pass(hit, y, t, p, c, m, f)) { status = GIVEN_BACK; break; }
            kz_sides(y, t, p, m, f, g, dg);
            /* The zero just passed is known: the next step divides it out. */
            g[hit] = 0.0;
            left[hit] = 1;
            h = kz_max(h, 1e-3 * (end - begin));
            last = end - t <= 1e-14 * (fabs(end) + length);
        }
#endif
#endif /* MAP */
        if (!last) continue;
        /* The end of a stretch: time and angles begin again. */
        stretch++;
        const int phase = stretch % parts;
#if JOB == JOB_STROBE
        for (int i = 0; i < N; i++) {
            int whole_turns = turns[((long)(stretch - 1) * N + i) * count + thread];
            if ((ANGLES >> i) & 1) whole_turns += (int)rint(y[i] / TURN);
            turns[((long)stretch * N + i) * count + thread] = whole_turns;
        }
#endif
#if JOB == JOB_ENDS
        /* Turns are returned as a number per state. */
        for (int i = 0; i < N; i++) if ((ANGLES >> i) & 1) turns[i * count + thread] += (int)rint(y[i] / TURN);
#endif
        kz_wrap(y);
        t = phase ? end : begin;
        end = stretch < whole ? begin + length * (phase + 1) / parts : begin + rest;
        h = fmin(h, kz_max(end - t, 1e-300));
#if SURFACES
        kz_rates(y, t, p, c, m, f);
        {
            int flags[SURFACES];
            for (int j = 0; j < SURFACES; j++) flags[j] = left[j];
            kz_sides(y, t, p, m, f, g, dg);
            for (int j = 0; j < SURFACES; j++) {
                if (flags[j]) g[j] = 0.0;
                else if (!(g[j] > 0.0)) status = GIVEN_BACK;
            }
        }
#else
        kz_rates(y, t, p, c, m, f);
#endif
#if JOB == JOB_STROBE
        for (int i = 0; i < N; i++) out[((long)(stretch - 1) * N + i) * count + thread] = y[i];
#elif JOB == JOB_NETS
        if (stretch % setup[1] == 0)
            for (int net = 0; net < setup[2] && label < 0; net++) {
                const double *of = nets + net * (N + N * N + 1);
                double off[N], form = 0.0;
                for (int i = 0; i < N; i++) {
                    off[i] = y[i] - of[i];
                    if ((ANGLES >> i) & 1) off[i] -= TURN * rint(off[i] / TURN);
                }
                for (int i = 0; i < N; i++)
                    for (int j = 0; j < N; j++) form += off[i] * of[N + i * N + j] * off[j];
                if (form <= 1.0) label = (int)of[N + N * N];
            }
        if (label >= 0) break;
#elif JOB == JOB_GROWTH
#if K
        kz_orthonormal(y + N, logs);
        kz_rates(y, t, p, c, m, f);
#endif
        if (stretch == skip) { for (int i = 0; i < N; i++) logs[i] = 0.0; volume = y[M - 1]; }
        if (stretch > skip && (stretch - skip) % per_block == 0) {
            const long block = (stretch - skip) / per_block - 1;
            double sum = 0.0;
            for (int j = 0; j < K; j++) { out[(block * N + j) * count + thread] = logs[j]; sum += logs[j]; logs[j] = 0.0; }
#if VOLUME
            out[(block * N + N - 1) * count + thread] = y[M - 1] - volume - sum;
            volume = y[M - 1];
#endif
        }
#endif
    }
#if JOB == JOB_ENDS
    for (int i = 0; i < M; i++) out[i * count + thread] = y[i];
#elif JOB == JOB_NETS
    for (int i = 0; i < N; i++) out[i * count + thread] = y[i];
#endif
    marks[thread] = status;
    marks[count + thread] = label;
    marks[2 * count + thread] = JOB == JOB_NETS ? stretch : step;
}

#ifndef KZ_CARD
void kz_follow_all(
    long count, const double *starts, const double *shared, const double *own, const double *begins,
    const double *lengths, const int *wholes, const double *rests, double tolerance, int max_steps, int each,
    const int *setup, const double *nets, double *out, int *marks, int *turns)
{
    for (kz_index = 0; kz_index < count; kz_index++)
        kz_follow(count, starts, shared, own, begins, lengths, wholes, rests, tolerance, max_steps, each, setup, nets,
                  out, marks, turns);
}
#endif
