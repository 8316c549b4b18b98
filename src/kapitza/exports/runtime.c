/* Motion between events: the same for all models. Steps of DOP853 (Hairer, Norsett, Wanner), events by repeated steps. */

#ifdef KZ_LIMIT
/* Whether measured drives that do not repeat are known at t, up to rounding. */
static int known(double t)
{
    const double near = 1e-9 * (KZ_LAST_TIME - KZ_FIRST_TIME);
    return t >= KZ_FIRST_TIME - near && t <= KZ_LAST_TIME + near;
}
#endif

static void kz_drives(double t, double at, double *u, double *du)
{
#if KZ_DRIVES
#ifdef KZ_LIMIT
#ifdef FMI
    /* Solvers of a master try times beyond an event and return: the polynomials of `at` go on there. */
    if (!known(at)) {
#else
    if (!known(t) || !known(at)) {
#endif
        for (int i = 0; i < KZ_DRIVES; i++) u[i] = du[i] = NAN;
        return;
    }
#endif
    for (int i = 0; i < KZ_DRIVES; i++) {
        const kz_table *table = &kz_tables[i];
        const double turns = table->period > 0.0 ? floor(at / table->period) : 0.0, local = at - turns * table->period;
        int low = 0, high = table->count;
        while (high - low > 1) {
            const int middle = (low + high) / 2;
            if (table->knots[middle] <= local) low = middle; else high = middle;
        }
        const double *c = table->coefficients + (size_t)low * (size_t)table->order;
        const double s = t - turns * table->period - table->knots[low];
        u[i] = du[i] = 0.0;
        for (int k = table->order - 1; k >= 0; k--) {
            u[i] = u[i] * s + c[k];
            if (k > 0) du[i] = du[i] * s + k * c[k];
        }
    }
#else
    (void)t; (void)at; u[0] = du[0] = 0.0;
#endif
}

double kz_next_knot(double t)
{
#ifdef KZ_LIMIT
    const double local = t + 1e-12 * (KZ_LAST_TIME - KZ_FIRST_TIME);
    int low = 0, high = KZ_KNOTS;
    if (local < kz_knots[0]) return kz_knots[0];
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (kz_knots[middle] <= local) low = middle; else high = middle;
    }
    return high < KZ_KNOTS ? kz_knots[high] : HUGE_VAL;
#elif KZ_DRIVES
    const double period = kz_knots[KZ_KNOTS - 1], turns = floor(t / period);
    const double local = t - turns * period + 1e-12 * period;
    int low = 0, high = KZ_KNOTS;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (kz_knots[middle] <= local) low = middle; else high = middle;
    }
    return high < KZ_KNOTS ? kz_knots[high] + turns * period : kz_knots[1] + (turns + 1.0) * period;
#else
    (void)t;
    return HUGE_VAL;
#endif
}

static void just_after(kz_motion *q, double t)
{
    const double knot = kz_next_knot(t);
    q->at = knot < HUGE_VAL ? t + 1e-3 * (knot - t) : t;
}

#if KZ_EVENTS
static double largest(const double *x)
{
    double size = 0.0;
    for (int i = 0; i < KZ_STATES; i++) size = fmax(size, fabs(x[i]));
    return 1.0 + size;
}
#endif

#if KZ_SWITCHES
/* Solve G z = r of size n by elimination with pivots; z takes the place of r. */
static void solve(double G[KZ_SWITCHES][KZ_SWITCHES], double *r, int n)
{
    for (int k = 0; k < n; k++) {
        int pivot = k;
        for (int i = k + 1; i < n; i++) if (fabs(G[i][k]) > fabs(G[pivot][k])) pivot = i;
        for (int j = 0; j < n; j++) { const double g = G[k][j]; G[k][j] = G[pivot][j]; G[pivot][j] = g; }
        const double s = r[k]; r[k] = r[pivot]; r[pivot] = s;
        for (int i = k + 1; i < n; i++) {
            const double factor = G[i][k] / G[k][k];
            for (int j = k; j < n; j++) G[i][j] -= factor * G[k][j];
            r[i] -= factor * r[k];
        }
    }
    for (int k = n - 1; k >= 0; k--) {
        for (int j = k + 1; j < n; j++) r[k] -= G[k][j] * r[j];
        r[k] /= G[k][k];
    }
}
#endif

/* Rates of the states; those of stuck switches keep s = 0, and q->held has their controls. */
void kz_field(kz_motion *q, double t, const double *x, double *d)
{
    double u[KZ_ROOM(KZ_DRIVES)], du[KZ_ROOM(KZ_DRIVES)];
    kz_drives(t, q->at, u, du);
#if KZ_SWITCHES
    int held[KZ_SWITCHES], n = 0;
    double m[KZ_SWITCHES];
    for (int i = 0; i < KZ_SWITCHES; i++) {
        m[i] = q->stuck[i] ? 1.0 : q->m[i];
        if (q->stuck[i]) held[n++] = i;
    }
    kz_rates(t, x, u, q->p, m, d);
    if (n == 0) return;
    double base[KZ_SURFACES], other[KZ_SURFACES], halves[KZ_SWITCHES][KZ_STATES];
    double gains[KZ_SWITCHES][KZ_SWITCHES], change[KZ_SWITCHES];
    kz_surfaces(t, x, u, du, q->p, m, d, base);
    for (int j = 0; j < n; j++) {
        m[held[j]] = -1.0;
        kz_rates(t, x, u, q->p, m, halves[j]);
        kz_surfaces(t, x, u, du, q->p, m, halves[j], other);
        for (int i = 0; i < n; i++)
            gains[i][j] = 0.5 * (base[KZ_SWITCHES + held[i]] - other[KZ_SWITCHES + held[i]]);
        for (int i = 0; i < KZ_STATES; i++) halves[j][i] = 0.5 * (d[i] - halves[j][i]);
        m[held[j]] = 1.0;
        change[j] = -base[KZ_SWITCHES + held[j]];
    }
    solve(gains, change, n);
    for (int j = 0; j < n; j++) {
        q->held[held[j]] = 1.0 + change[j];
        for (int i = 0; i < KZ_STATES; i++) d[i] += change[j] * halves[j][i];
    }
#else
    kz_rates(t, x, u, q->p, q->m, d);
#endif
}

/* Switching functions and walls, their rates times the modes, and the functions watched for a fall to zero. */
void kz_watch(kz_motion *q, double t, const double *x, double *value, double *slope, double *watched)
{
#if KZ_EVENTS
    double u[KZ_ROOM(KZ_DRIVES)], du[KZ_ROOM(KZ_DRIVES)], d[KZ_STATES], m[KZ_ROOM(KZ_SWITCHES)], s[KZ_SURFACES];
    kz_field(q, t, x, d);
    kz_drives(t, q->at, u, du);
    m[0] = 1.0;
    for (int i = 0; i < KZ_SWITCHES; i++) m[i] = q->stuck[i] ? q->held[i] : q->m[i];
    kz_surfaces(t, x, u, du, q->p, m, d, s);
    for (int i = 0; i < KZ_SWITCHES; i++) {
        value[i] = s[i];
        slope[i] = q->m[i] * s[KZ_SWITCHES + i];
        watched[i] = q->stuck[i] ? 1.0 - fabs(q->held[i]) : q->m[i] == 0.0 ? 1.0 : q->m[i] * s[i];
    }
    for (int j = 0; j < KZ_WALLS; j++) {
        watched[KZ_SWITCHES + j] = value[KZ_SWITCHES + j] = s[2 * KZ_SWITCHES + j];
        slope[KZ_SWITCHES + j] = s[2 * KZ_SWITCHES + KZ_WALLS + j];
    }
#else
    (void)q; (void)t; (void)x; value[0] = slope[0] = watched[0] = 1.0;
#endif
}

#if KZ_SWITCHES
/* Rate of a switching function with its mode at +1 and at -1. */
static void sides(kz_motion *q, double t, const double *x, int i, double *above, double *below)
{
    double value[KZ_EVENTS], slope[KZ_EVENTS], watched[KZ_EVENTS];
    const double was = q->m[i];
    const int stuck = q->stuck[i];
    q->stuck[i] = 0;
    q->m[i] = 1.0;
    kz_watch(q, t, x, value, slope, watched);
    *above = slope[i];
    q->m[i] = -1.0;
    kz_watch(q, t, x, value, slope, watched);
    *below = -slope[i];
    q->m[i] = was;
    q->stuck[i] = stuck;
}

/* One mode that follows from others; 0 when all of them agree. */
static int settle_once(kz_motion *q, double t, const double *x)
{
    double value[KZ_EVENTS], slope[KZ_EVENTS], watched[KZ_EVENTS], above, below;
    const double size = largest(x);
    kz_watch(q, t, x, value, slope, watched);
    for (int i = 0; i < KZ_SWITCHES; i++) {
        if (q->stuck[i]) {
            if (fabs(q->held[i]) <= 1.0 + KZ_NEAR && fabs(value[i]) <= KZ_LOST * size) continue;
            q->stuck[i] = 0;
            q->m[i] = q->held[i] > 0.0 ? 1.0 : -1.0;
            q->left[i] = 1;
            return 1;
        }
        if (kz_can_vanish[i] && value[i] == 0.0 && slope[i] == 0.0) {
            sides(q, t, x, i, &above, &below);
            if (above == 0.0 && below == 0.0) {
                if (q->m[i] == 0.0) continue;
                q->m[i] = 0.0;
                return 1;
            }
        }
        if (q->m[i] == 0.0) {
            sides(q, t, x, i, &above, &below);
            q->m[i] = value[i] != 0.0 ? (value[i] > 0.0 ? 1.0 : -1.0) : (above > 0.0 ? 1.0 : -1.0);
            return 1;
        }
        if (q->m[i] * value[i] < -KZ_NEAR * size) {
            q->m[i] = value[i] > 0.0 ? 1.0 : -1.0;
            return 1;
        }
    }
    return 0;
}
#endif

int kz_settle(kz_motion *q, double t, const double *x)
{
#if KZ_SWITCHES
    for (int n = 0; n < 4 * KZ_SWITCHES + 4; n++) if (!settle_once(q, t, x)) return 0;
    q->message = "the modes of the switches do not settle";
    return 4;
#else
    (void)q; (void)t; (void)x;
    return 0;
#endif
}

/* Set time, state and parameters (NULL: those of the model, whose fitted start belongs to its time) and the modes. */
int kz_init(kz_motion *q, double t, const double *x, const double *p)
{
    memset(q, 0, sizeof *q);
    q->t = t;
    q->tolerance = 1e-12;
    q->message = "";
    memcpy(q->x, x ? x : kz_start, sizeof q->x);
    memcpy(q->p, p ? p : kz_values, KZ_PARAMETERS * sizeof(double));
#ifdef KZ_START_AT
    if (!x && fabs(t - (KZ_START_AT)) > 1e-9 * fmax(1.0, fabs(KZ_START_AT))) {
        q->message = KZ_OTHER_START;
        return 5;
    }
#endif
    return kz_begin(q);
}

/* Modes of the switches at the present time and state. */
int kz_begin(kz_motion *q)
{
#ifdef KZ_LIMIT
    if (!known(q->t)) {
        q->message = KZ_LIMIT;
        return 4;
    }
#endif
    just_after(q, q->t);
#if KZ_SWITCHES
    double value[KZ_EVENTS], slope[KZ_EVENTS], watched[KZ_EVENTS], above, below;
    for (int i = 0; i < KZ_EVENTS; i++) q->left[i] = 0;
    for (int i = 0; i < KZ_SWITCHES; i++) { q->m[i] = 1.0; q->stuck[i] = 0; }
    for (int i = 0; i < KZ_SWITCHES; i++) {
        kz_watch(q, q->t, q->x, value, slope, watched);
        if (fabs(value[i]) > KZ_NEAR * largest(q->x)) {
            q->m[i] = value[i] > 0.0 ? 1.0 : -1.0;
            continue;
        }
        sides(q, q->t, q->x, i, &above, &below);
        if (kz_can_stick[i] && above < 0.0 && below > 0.0) {
            q->stuck[i] = 1;
        } else {
            q->left[i] = 1;
            q->m[i] = above > 0.0 || (above == 0.0 && below >= 0.0) ? 1.0 : -1.0;
        }
    }
#endif
    return kz_settle(q, q->t, q->x);
}

/* The event of a surface at the present time and state. */
int kz_happen(kz_motion *q, int i)
{
#if KZ_EVENTS
    double value[KZ_EVENTS], slope[KZ_EVENTS], watched[KZ_EVENTS];
#if KZ_WALLS
    if (i >= KZ_SWITCHES) {
        double u[KZ_ROOM(KZ_DRIVES)], du[KZ_ROOM(KZ_DRIVES)], next[KZ_STATES];
        kz_watch(q, q->t, q->x, value, slope, watched);
        const double before = fabs(slope[i]);
        kz_drives(q->t, q->at, u, du);
        kz_reset(i - KZ_SWITCHES, q->t, q->x, u, q->p, q->m, next);
        memcpy(q->x, next, sizeof next);
        kz_watch(q, q->t, q->x, value, slope, watched);
        if (!(slope[i] > 1e-9 * (1.0 + before))) {
            q->message = "impacts die out: lasting contact is not exported";
            return 2;
        }
        q->left[i] = 1;
        return kz_settle(q, q->t, q->x);
    }
#endif
#if KZ_SWITCHES
    if (q->stuck[i]) {
        kz_watch(q, q->t, q->x, value, slope, watched);
        q->stuck[i] = 0;
        q->m[i] = q->held[i] > 0.0 ? 1.0 : -1.0;
    } else {
        double above = 1.0, below = 1.0;
        if (kz_can_stick[i]) sides(q, q->t, q->x, i, &above, &below);
        if (above < 0.0 && below > 0.0) q->stuck[i] = 1; else q->m[i] = -q->m[i];
    }
    q->left[i] = !q->stuck[i];
#endif
#else
    (void)i;
#endif
    return kz_settle(q, q->t, q->x);
}

/* One step of size h from the present state; returns its error in units of the tolerance. */
static double step(kz_motion *q, double h, double *y)
{
    double k[13][KZ_STATES], error3 = 0.0, error5 = 0.0;
    kz_field(q, q->t, q->x, k[0]);
    for (int s = 1; s < 13; s++) {
        const double *a = s < 12 ? kz_stage[s] : kz_weight;
        for (int i = 0; i < KZ_STATES; i++) {
            double sum = 0.0;
            for (int j = 0; j < s; j++) sum += a[j] * k[j][i];
            y[i] = q->x[i] + h * sum;
        }
        kz_field(q, q->t + (s < 12 ? kz_node[s] * h : h), y, k[s]);
    }
    for (int i = 0; i < KZ_STATES; i++) {
        const double scale = q->tolerance * (1.0 + fmax(fabs(q->x[i]), fabs(y[i])));
        double e3 = 0.0, e5 = 0.0;
        for (int j = 0; j < 13; j++) { e3 += kz_error3[j] * k[j][i]; e5 += kz_error5[j] * k[j][i]; }
        error3 += e3 * e3 / (scale * scale);
        error5 += e5 * e5 / (scale * scale);
    }
    if (error3 == 0.0 && error5 == 0.0) return 0.0;
    return fabs(h) * error5 / sqrt((error5 + 0.01 * error3) * KZ_STATES);
}

#if KZ_EVENTS
/* A watched function (or its slope) after a step of size h. */
static double after(kz_motion *q, double h, int i, int want_slope)
{
    double y[KZ_STATES], value[KZ_EVENTS], slope[KZ_EVENTS], watched[KZ_EVENTS];
    step(q, h, y);
    kz_watch(q, q->t + h, y, value, slope, watched);
    return want_slope ? slope[i] : watched[i];
}

/* Zero of a watched function, or of its slope, between two steps, by the Illinois method. */
static double zero(kz_motion *q, int i, int want_slope, double low, double high)
{
    double f = after(q, low, i, want_slope), g = after(q, high, i, want_slope);
    int side = 0;
    for (int n = 0; n < 200 && fabs(high - low) > 1e-16 * (fabs(q->t) + fabs(high)); n++) {
        double middle = g != f ? high - g * (high - low) / (g - f) : 0.5 * (low + high);
        if (!(middle > low && middle < high) || n % 8 == 7) middle = 0.5 * (low + high);
        if (middle <= low || middle >= high) break;
        const double value = after(q, middle, i, want_slope);
        if (value == 0.0) return middle;
        if ((value > 0.0) == (f > 0.0)) {
            low = middle; f = value;
            if (side == 1) g *= 0.5;
            side = 1;
        } else {
            high = middle; g = value;
            if (side == 2) f *= 0.5;
            side = 2;
        }
    }
    return high;
}

/* The first surface that falls through zero within a step h to y: its number, or -1; *when is the size of the step. */
static int first_event(kz_motion *q, double h, const double *y, const double *slope, const double *watched, double *when)
{
    double value[KZ_EVENTS], slope1[KZ_EVENTS], watched1[KZ_EVENTS];
    int first = -1;
    *when = h;
    kz_watch(q, q->t + h, y, value, slope1, watched1);
    for (int i = 0; i < KZ_EVENTS; i++) {
        double low = 0.0, high = h;
        if (!(watched1[i] < 0.0 || (slope[i] < 0.0 && slope1[i] > 0.0))) continue;
        if (q->left[i]) {
            int n;
            for (n = 0, low = 0.5 * h; n < 20 && !(after(q, low, i, 0) > 0.0); n++) low *= 0.5;
            if (n == 20) {
                if (watched1[i] < -KZ_LOST * largest(y)) return -2;
                continue;
            }
        } else if (watched[i] <= 0.0) {
            if (watched1[i] < 0.0) { *when = 0.0; return i; }
            continue;
        }
        if (watched1[i] >= 0.0) {
            if ((i < KZ_SWITCHES && q->stuck[i]) || after(q, low, i, 1) >= 0.0) continue;
            high = zero(q, i, 1, low, high);
            if (after(q, high, i, 0) >= 0.0) continue;
        }
        high = zero(q, i, 0, low, high);
        if (first < 0 || high < *when) { first = i; *when = high; }
    }
    return first;
}
#endif

/* Size of a first step: a hundredth of the time in which the state changes by itself. */
static double first_step(kz_motion *q)
{
    double d[KZ_STATES], size = 0.0, speed = 0.0;
    kz_field(q, q->t, q->x, d);
    for (int i = 0; i < KZ_STATES; i++) { size = fmax(size, fabs(q->x[i])); speed = fmax(speed, fabs(d[i])); }
    return size > 1e-5 && speed > 1e-5 ? 0.01 * size / speed : 1e-6;
}

/* Run to a later time. Returns 0, or the number of a failure that q->message explains. */
int kz_advance(kz_motion *q, double end)
{
    double y[KZ_STATES], value[KZ_ROOM(KZ_EVENTS)], slope[KZ_ROOM(KZ_EVENTS)], watched[KZ_ROOM(KZ_EVENTS)];
    double h;
#ifdef KZ_LIMIT
    if (!known(q->t) || !known(end)) {
        q->message = KZ_LIMIT;
        return 4;
    }
#endif
    if (!(q->step > 0.0)) q->step = first_step(q);
    while (q->t < end) {
        const double knot = kz_next_knot(q->t), stop = knot < end ? knot : end;
        int event = -1, last;
        q->at = knot < HUGE_VAL ? q->t + 0.5 * (knot - q->t) : q->t;
        kz_watch(q, q->t, q->x, value, slope, watched);
        for (;;) {
            h = fmin(q->step, KZ_LONGEST_STEP);
            last = q->t + h * 1.000001 >= stop;
            if (last) h = stop - q->t;
            const double error = step(q, h, y);
            if (error <= 1.0) {
                const double factor = error > 1e-10 ? fmin(6.0, 0.9 * pow(error, -0.125)) : 6.0;
                q->step = last ? fmax(q->step, h * factor) : h * factor;
                break;
            }
            q->step = isfinite(error) ? h * fmax(0.2, 0.9 * pow(error, -0.125)) : 0.1 * h;
            if (!(q->step > 1e-15 * fabs(q->t) + 1e-300)) {
                q->message = "the step became too small: the motion is not finite, or the tolerance too small";
                return 1;
            }
        }
#if KZ_EVENTS
        double when = h;
        event = first_event(q, h, y, slope, watched, &when);
        if (event == -2) {
            q->message = "a surface was lost";
            return 3;
        }
        if (event >= 0) {
            if (when > 0.0) { step(q, when, y); memcpy(q->x, y, sizeof y); q->t += when; }
            const int failure = kz_happen(q, event);
            if (failure) return failure;
            continue;
        }
#endif
        (void)event;
        memcpy(q->x, y, sizeof y);
        q->t = last ? stop : q->t + h;
#if KZ_EVENTS
        kz_watch(q, q->t, q->x, value, slope, watched);
        for (int i = 0; i < KZ_EVENTS; i++) if (watched[i] > KZ_NEAR * largest(q->x)) q->left[i] = 0;
        if (last && stop == knot) {
            just_after(q, q->t);
            const int failure = kz_settle(q, q->t, q->x);
            if (failure) return failure;
        }
#endif
    }
    return 0;
}

/* Outputs at the present time and state. */
void kz_outputs_of(kz_motion *q, double *y)
{
    double u[KZ_ROOM(KZ_DRIVES)], du[KZ_ROOM(KZ_DRIVES)], d[KZ_STATES];
    just_after(q, q->t);
    kz_field(q, q->t, q->x, d);
    kz_drives(q->t, q->at, u, du);
    kz_outputs(q->t, q->x, u, q->p, d, y);
}

#ifdef KZ_MAIN
#include <stdio.h>
#include <stdlib.h>
/* Print states and outputs at n times: program [first [last [n]]] */
int main(int argc, char **argv)
{
    const double first = argc > 1 ? atof(argv[1]) : KZ_SPAN_FIRST, last = argc > 2 ? atof(argv[2]) : KZ_SPAN_LAST;
    const int n = argc > 3 ? atoi(argv[3]) : 101;
    kz_motion q;
    double y[KZ_ROOM(KZ_OUTPUTS)];
    int failure = kz_init(&q, first, NULL, NULL);
    for (int i = 0; i < n && !failure; i++) {
        const double t = i == n - 1 ? last : first + i * ((last - first) / (n - 1));
        failure = kz_advance(&q, t);
        if (failure) break;
        kz_outputs_of(&q, y);
        printf("%.17g", t);
        for (int j = 0; j < KZ_STATES; j++) printf(",%.17g", q.x[j]);
        for (int j = 0; j < KZ_OUTPUTS; j++) printf(",%.17g", y[j]);
        printf("\n");
    }
    if (failure) fprintf(stderr, "%s at t = %.9g\n", q.message, q.t);
    return failure;
}
#endif
