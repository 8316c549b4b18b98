/* FMI 2.0 and 3.0, model exchange and co-simulation, on top of the motion above. FMI is 2 or 3.
   Value references: 0 time, then states, rates of the states, parameters, outputs, event indicators. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#if defined _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

enum { FIRST_STATE = 1, FIRST_RATE = FIRST_STATE + KZ_STATES, FIRST_PARAMETER = FIRST_RATE + KZ_STATES,
       FIRST_OUTPUT = FIRST_PARAMETER + KZ_PARAMETERS, FIRST_INDICATOR = FIRST_OUTPUT + KZ_OUTPUTS,
       NO_REFERENCE = FIRST_INDICATOR + KZ_EVENTS };
enum { OK = 0, DISCARD = 2, ERROR = 3 };

#if FMI == 2
typedef int Flag;
typedef unsigned int Reference;
typedef void (*Logger)(void *, const char *, int, const char *, const char *, ...);
typedef struct { Logger logger; void *(*allocate)(size_t, size_t); void (*release)(void *); void *finished, *environment; } Callbacks;
#else
typedef bool Flag;
typedef uint32_t Reference;
typedef void (*Logger)(void *, int, const char *, const char *);
#endif

typedef struct {
    kz_motion q;
    Logger logger;
    void *environment;
    char name[64];
} Unit;

static int fail(Unit *c, const char *message)
{
#if FMI == 2
    if (c->logger) c->logger(c->environment, c->name, ERROR, "logStatusError", "%s", message);
#else
    if (c->logger) c->logger(c->environment, ERROR, "logStatusError", message);
#endif
    return ERROR;
}

static Unit *created(const char *name, const char *token, Logger logger, void *environment)
{
    Unit *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->logger = logger;
    c->environment = environment;
    strncpy(c->name, name ? name : "", sizeof c->name - 1);
    if (!token || strcmp(token, KZ_TOKEN) != 0) {
        fail(c, "the token of the unit is not that of its description");
        free(c);
        return NULL;
    }
    kz_init(&c->q, 0.0, NULL, NULL);
    return c;
}

/* Where measured drives do not repeat, steps, rates and outputs beyond their ends are refused. */
static int inside(Unit *c)
{
#ifdef KZ_LIMIT
    if (!known(c->q.t)) return fail(c, KZ_LIMIT);
#endif
    (void)c;
    return OK;
}

static int get(Unit *c, const Reference *vr, size_t n, double *values)
{
    double d[KZ_STATES], y[KZ_ROOM(KZ_OUTPUTS)];
    double value[KZ_ROOM(KZ_EVENTS)], slope[KZ_ROOM(KZ_EVENTS)], watched[KZ_ROOM(KZ_EVENTS)];
    const double at = c->q.at;
    kz_field(&c->q, c->q.t, c->q.x, d);
    kz_watch(&c->q, c->q.t, c->q.x, value, slope, watched);
    kz_outputs_of(&c->q, y);
    c->q.at = at;
    for (size_t i = 0; i < n; i++) {
        const Reference r = vr[i];
        if (r == 0) values[i] = c->q.t;
        else if (r < FIRST_RATE) values[i] = c->q.x[r - FIRST_STATE];
        else if (r < FIRST_PARAMETER) values[i] = d[r - FIRST_RATE];
        else if (r < FIRST_OUTPUT) values[i] = c->q.p[r - FIRST_PARAMETER];
        else if (r < FIRST_INDICATOR) values[i] = y[r - FIRST_OUTPUT];
        else if (r < NO_REFERENCE) values[i] = watched[r - FIRST_INDICATOR];
        else return fail(c, "no variable has this value reference");
        if ((r >= FIRST_RATE && r < FIRST_PARAMETER) || r >= FIRST_OUTPUT)
            if (inside(c) != OK) return ERROR;
    }
    return OK;
}

static int set(Unit *c, const Reference *vr, size_t n, const double *values)
{
    for (size_t i = 0; i < n; i++) {
        const Reference r = vr[i];
        if (r >= FIRST_STATE && r < FIRST_RATE) c->q.x[r - FIRST_STATE] = values[i];
        else if (r >= FIRST_PARAMETER && r < FIRST_OUTPUT) c->q.p[r - FIRST_PARAMETER] = values[i];
        else return fail(c, "a variable with this value reference cannot be set");
    }
    return OK;
}

static int begun(Unit *c)
{
    return kz_begin(&c->q) ? fail(c, c->q.message) : OK;
}

/* Events at the present time: a watched surface at zero that falls. Sets whether the state has jumped. */
static int events(Unit *c, Flag *jumped, double *next)
{
    *jumped = 0;
    *next = HUGE_VAL;
    if (inside(c) != OK) return ERROR;
    just_after(&c->q, c->q.t);
    if (kz_settle(&c->q, c->q.t, c->q.x)) return fail(c, c->q.message);
#if KZ_EVENTS
    double value[KZ_EVENTS], slope[KZ_EVENTS], watched[KZ_EVENTS];
    for (int n = 0; n < 4 * KZ_EVENTS; n++) {
        int due = -1;
        kz_watch(&c->q, c->q.t, c->q.x, value, slope, watched);
        for (int i = 0; i < KZ_EVENTS && due < 0; i++) {
            const int stuck = i < KZ_SWITCHES && c->q.stuck[i];
            const double near = KZ_NEAR * largest(c->q.x);
            /* After a release s and its rate are zero up to rounding: a surface just left is due beyond that only. */
            if (c->q.left[i] ? watched[i] < -near : watched[i] <= near && (stuck || slope[i] < 0.0)) due = i;
        }
        if (due < 0) break;
        if (kz_happen(&c->q, due)) return fail(c, c->q.message);
        if (due >= KZ_SWITCHES) *jumped = 1;
    }
#endif
    *next = kz_next_knot(c->q.t);
    return OK;
}

/* After a step of the master: surfaces that have been left are watched again. */
static void stepped(Unit *c)
{
#if KZ_EVENTS
    double value[KZ_EVENTS], slope[KZ_EVENTS], watched[KZ_EVENTS];
    kz_watch(&c->q, c->q.t, c->q.x, value, slope, watched);
    for (int i = 0; i < KZ_EVENTS; i++) if (watched[i] > KZ_NEAR * largest(c->q.x)) c->q.left[i] = 0;
#else
    (void)c;
#endif
}

static int advanced(Unit *c, double from, double step)
{
    if (!(step > 0.0)) return fail(c, "the step must be positive");
    c->q.t = from;
    return kz_advance(&c->q, from + step) ? fail(c, c->q.message) : OK;
}

static int copied(Unit *c, void **state)
{
    if (!*state) *state = malloc(sizeof c->q);
    if (!*state) return fail(c, "out of memory");
    memcpy(*state, &c->q, sizeof c->q);
    return OK;
}

#if FMI == 2
#define F(name) EXPORT int fmi2##name
#define VECTOR const Reference *vr, size_t n
typedef struct { Flag again, terminate, nominals, values, defined; double time; } EventInfo;

EXPORT const char *fmi2GetTypesPlatform(void) { return "default"; }
EXPORT const char *fmi2GetVersion(void) { return "2.0"; }
EXPORT void *fmi2Instantiate(const char *name, int type, const char *token, const char *resources, const Callbacks *f, Flag visible, Flag logging)
{
    (void)type; (void)resources; (void)visible; (void)logging;
    return created(name, token, f ? f->logger : NULL, f ? f->environment : NULL);
}
EXPORT void fmi2FreeInstance(void *c) { free(c); }
F(SetDebugLogging)(void *c, Flag on, size_t n, const char *const *categories) { (void)c; (void)on; (void)n; (void)categories; return OK; }
F(SetupExperiment)(void *c, Flag given, double tolerance, double start, Flag stops, double stop)
{
    (void)stops; (void)stop;
    ((Unit *)c)->q.t = start;
    if (given && tolerance > 0.0) ((Unit *)c)->q.tolerance = tolerance;
    return OK;
}
F(EnterInitializationMode)(void *c) { (void)c; return OK; }
F(ExitInitializationMode)(void *c) { return begun(c); }
F(Terminate)(void *c) { (void)c; return OK; }
F(Reset)(void *c) { kz_init(&((Unit *)c)->q, 0.0, NULL, NULL); return OK; }
F(GetReal)(void *c, VECTOR, double *v) { return get(c, vr, n, v); }
F(SetReal)(void *c, VECTOR, const double *v) { return set(c, vr, n, v); }
#define NO_KIND(name, type) \
    F(Get##name)(void *c, VECTOR, type *v) { (void)vr; (void)v; return n ? fail(c, "there are real variables only") : OK; } \
    F(Set##name)(void *c, VECTOR, const type *v) { (void)vr; (void)v; return n ? fail(c, "there are real variables only") : OK; }
NO_KIND(Integer, int)
NO_KIND(Boolean, int)
NO_KIND(String, char *)
F(GetFMUstate)(void *c, void **s) { return copied(c, s); }
F(SetFMUstate)(void *c, void *s) { memcpy(&((Unit *)c)->q, s, sizeof(kz_motion)); return OK; }
F(FreeFMUstate)(void *c, void **s) { (void)c; free(*s); *s = NULL; return OK; }
F(SerializedFMUstateSize)(void *c, void *s, size_t *size) { (void)s; (void)size; return fail(c, "states are not serialised"); }
F(SerializeFMUstate)(void *c, void *s, char *bytes, size_t size) { (void)s; (void)bytes; (void)size; return fail(c, "states are not serialised"); }
F(DeSerializeFMUstate)(void *c, const char *bytes, size_t size, void **s) { (void)s; (void)bytes; (void)size; return fail(c, "states are not serialised"); }
F(GetDirectionalDerivative)(void *c, const Reference *a, size_t n, const Reference *b, size_t m, const double *v, double *w)
{
    (void)a; (void)n; (void)b; (void)m; (void)v; (void)w;
    return fail(c, "directional derivatives are not provided");
}
F(EnterEventMode)(void *c) { (void)c; return OK; }
F(NewDiscreteStates)(void *c, EventInfo *info)
{
    Flag jumped;
    double next;
    const int status = events(c, &jumped, &next);
    memset(info, 0, sizeof *info);
    info->values = jumped;
    info->defined = next < HUGE_VAL;
    info->time = info->defined ? next : 0.0;
    return status;
}
F(EnterContinuousTimeMode)(void *c) { (void)c; return OK; }
F(CompletedIntegratorStep)(void *c, Flag fixed, Flag *event, Flag *terminate) { stepped(c); (void)fixed; *event = *terminate = 0; return inside(c); }
F(SetTime)(void *c, double t) { ((Unit *)c)->q.t = t; return OK; }
F(SetContinuousStates)(void *c, const double *x, size_t n) { memcpy(((Unit *)c)->q.x, x, n * sizeof *x); return OK; }
F(GetContinuousStates)(void *c, double *x, size_t n) { memcpy(x, ((Unit *)c)->q.x, n * sizeof *x); return OK; }
F(GetDerivatives)(void *c, double *d, size_t n) { (void)n; kz_field(&((Unit *)c)->q, ((Unit *)c)->q.t, ((Unit *)c)->q.x, d); return OK; }
F(GetNominalsOfContinuousStates)(void *c, double *x, size_t n) { (void)c; for (size_t i = 0; i < n; i++) x[i] = 1.0; return OK; }
F(GetEventIndicators)(void *c, double *z, size_t n)
{
    double value[KZ_ROOM(KZ_EVENTS)], slope[KZ_ROOM(KZ_EVENTS)], watched[KZ_ROOM(KZ_EVENTS)];
    kz_watch(&((Unit *)c)->q, ((Unit *)c)->q.t, ((Unit *)c)->q.x, value, slope, watched);
    memcpy(z, watched, n * sizeof *z);
    return OK;
}
F(DoStep)(void *c, double from, double step, Flag fixed) { (void)fixed; return advanced(c, from, step); }
F(CancelStep)(void *c) { return fail(c, "steps are not asynchronous"); }
F(SetRealInputDerivatives)(void *c, VECTOR, const int *order, const double *v) { (void)vr; (void)n; (void)order; (void)v; return fail(c, "there are no inputs"); }
F(GetRealOutputDerivatives)(void *c, VECTOR, const int *order, double *v) { (void)vr; (void)n; (void)order; (void)v; return fail(c, "derivatives of outputs are not provided"); }
F(GetRealStatus)(void *c, int kind, double *v) { if (kind == 2) { *v = ((Unit *)c)->q.t; return OK; } return DISCARD; }
#define NO_STATUS(name, type) F(name)(void *c, int kind, type *v) { (void)c; (void)kind; (void)v; return DISCARD; }
NO_STATUS(GetStatus, int)
NO_STATUS(GetIntegerStatus, int)
NO_STATUS(GetBooleanStatus, int)
NO_STATUS(GetStringStatus, char *)
#else
#define F(name) EXPORT int fmi3##name
#define VECTOR const Reference *vr, size_t n
#define MANY size_t count

EXPORT const char *fmi3GetVersion(void) { return "3.0"; }
EXPORT void *fmi3InstantiateModelExchange(const char *name, const char *token, const char *resources, bool visible, bool logging, void *environment, Logger logger)
{
    (void)resources; (void)visible; (void)logging;
    return created(name, token, logger, environment);
}
EXPORT void *fmi3InstantiateCoSimulation(const char *name, const char *token, const char *resources, bool visible, bool logging, bool event_mode, bool early,
    const Reference *required, size_t n, void *environment, Logger logger, void (*update)(void))
{
    (void)resources; (void)visible; (void)logging; (void)event_mode; (void)early; (void)required; (void)n; (void)update;
    return created(name, token, logger, environment);
}
EXPORT void *fmi3InstantiateScheduledExecution(const char *name, const char *token, const char *resources, bool visible, bool logging, void *environment, Logger logger,
    void (*update)(void), void (*lock)(void), void (*unlock)(void))
{
    (void)name; (void)token; (void)resources; (void)visible; (void)logging; (void)environment; (void)logger; (void)update; (void)lock; (void)unlock;
    return NULL;
}
EXPORT void fmi3FreeInstance(void *c) { free(c); }
F(SetDebugLogging)(void *c, bool on, size_t n, const char *const *categories) { (void)c; (void)on; (void)n; (void)categories; return OK; }
F(EnterInitializationMode)(void *c, bool given, double tolerance, double start, bool stops, double stop)
{
    (void)stops; (void)stop;
    ((Unit *)c)->q.t = start;
    if (given && tolerance > 0.0) ((Unit *)c)->q.tolerance = tolerance;
    return OK;
}
F(ExitInitializationMode)(void *c) { return begun(c); }
F(EnterEventMode)(void *c) { (void)c; return OK; }
F(Terminate)(void *c) { (void)c; return OK; }
F(Reset)(void *c) { kz_init(&((Unit *)c)->q, 0.0, NULL, NULL); return OK; }
F(GetFloat64)(void *c, VECTOR, double *v, MANY) { (void)count; return get(c, vr, n, v); }
F(SetFloat64)(void *c, VECTOR, const double *v, MANY) { (void)count; return set(c, vr, n, v); }
#define NO_KIND(name, type) \
    F(Get##name)(void *c, VECTOR, type *v, MANY) { (void)vr; (void)v; (void)count; return n ? fail(c, "there are variables of kind Float64 only") : OK; } \
    F(Set##name)(void *c, VECTOR, const type *v, MANY) { (void)vr; (void)v; (void)count; return n ? fail(c, "there are variables of kind Float64 only") : OK; }
NO_KIND(Float32, float)
NO_KIND(Int8, int8_t)
NO_KIND(UInt8, uint8_t)
NO_KIND(Int16, int16_t)
NO_KIND(UInt16, uint16_t)
NO_KIND(Int32, int32_t)
NO_KIND(UInt32, uint32_t)
NO_KIND(Int64, int64_t)
NO_KIND(UInt64, uint64_t)
NO_KIND(Boolean, bool)
NO_KIND(String, char *)
F(GetBinary)(void *c, VECTOR, size_t *sizes, const uint8_t **v, MANY) { (void)vr; (void)sizes; (void)v; (void)count; return n ? fail(c, "there are no binary variables") : OK; }
F(SetBinary)(void *c, VECTOR, const size_t *sizes, const uint8_t *const *v, MANY) { (void)vr; (void)sizes; (void)v; (void)count; return n ? fail(c, "there are no binary variables") : OK; }
F(GetClock)(void *c, VECTOR, bool *v) { (void)vr; (void)v; return n ? fail(c, "there are no clocks") : OK; }
F(SetClock)(void *c, VECTOR, const bool *v) { (void)vr; (void)v; return n ? fail(c, "there are no clocks") : OK; }
F(GetNumberOfVariableDependencies)(void *c, Reference r, size_t *n) { (void)r; (void)n; return fail(c, "dependencies are not provided"); }
F(GetVariableDependencies)(void *c, Reference r, size_t *a, Reference *b, size_t *d, int *kinds, size_t n)
{
    (void)r; (void)a; (void)b; (void)d; (void)kinds; (void)n;
    return fail(c, "dependencies are not provided");
}
F(GetFMUState)(void *c, void **s) { return copied(c, s); }
F(SetFMUState)(void *c, void *s) { memcpy(&((Unit *)c)->q, s, sizeof(kz_motion)); return OK; }
F(FreeFMUState)(void *c, void **s) { (void)c; free(*s); *s = NULL; return OK; }
F(SerializedFMUStateSize)(void *c, void *s, size_t *size) { (void)s; (void)size; return fail(c, "states are not serialised"); }
F(SerializeFMUState)(void *c, void *s, uint8_t *bytes, size_t size) { (void)s; (void)bytes; (void)size; return fail(c, "states are not serialised"); }
F(DeserializeFMUState)(void *c, const uint8_t *bytes, size_t size, void **s) { (void)s; (void)bytes; (void)size; return fail(c, "states are not serialised"); }
#define NO_DERIVATIVE(name) \
    F(name)(void *c, const Reference *a, size_t n, const Reference *b, size_t m, const double *v, size_t k, double *w, size_t l) \
    { (void)a; (void)n; (void)b; (void)m; (void)v; (void)k; (void)w; (void)l; return fail(c, "derivatives are not provided"); }
NO_DERIVATIVE(GetDirectionalDerivative)
NO_DERIVATIVE(GetAdjointDerivative)
F(EnterConfigurationMode)(void *c) { (void)c; return OK; }
F(ExitConfigurationMode)(void *c) { (void)c; return OK; }
F(GetIntervalDecimal)(void *c, VECTOR, double *v, int *kinds) { (void)vr; (void)n; (void)v; (void)kinds; return fail(c, "there are no clocks"); }
F(GetIntervalFraction)(void *c, VECTOR, uint64_t *a, uint64_t *b, int *kinds) { (void)vr; (void)n; (void)a; (void)b; (void)kinds; return fail(c, "there are no clocks"); }
F(GetShiftDecimal)(void *c, VECTOR, double *v) { (void)vr; (void)n; (void)v; return fail(c, "there are no clocks"); }
F(GetShiftFraction)(void *c, VECTOR, uint64_t *a, uint64_t *b) { (void)vr; (void)n; (void)a; (void)b; return fail(c, "there are no clocks"); }
F(SetIntervalDecimal)(void *c, VECTOR, const double *v) { (void)vr; (void)n; (void)v; return fail(c, "there are no clocks"); }
F(SetIntervalFraction)(void *c, VECTOR, const uint64_t *a, const uint64_t *b) { (void)vr; (void)n; (void)a; (void)b; return fail(c, "there are no clocks"); }
F(SetShiftDecimal)(void *c, VECTOR, const double *v) { (void)vr; (void)n; (void)v; return fail(c, "there are no clocks"); }
F(SetShiftFraction)(void *c, VECTOR, const uint64_t *a, const uint64_t *b) { (void)vr; (void)n; (void)a; (void)b; return fail(c, "there are no clocks"); }
F(EvaluateDiscreteStates)(void *c) { (void)c; return OK; }
F(UpdateDiscreteStates)(void *c, bool *again, bool *terminate, bool *nominals, bool *values, bool *defined, double *time)
{
    double next;
    const int status = events(c, values, &next);
    *again = *terminate = *nominals = false;
    *defined = next < HUGE_VAL;
    *time = *defined ? next : 0.0;
    return status;
}
F(EnterContinuousTimeMode)(void *c) { (void)c; return OK; }
F(CompletedIntegratorStep)(void *c, bool fixed, bool *event, bool *terminate) { stepped(c); (void)fixed; *event = *terminate = false; return inside(c); }
F(SetTime)(void *c, double t) { ((Unit *)c)->q.t = t; return OK; }
F(SetContinuousStates)(void *c, const double *x, size_t n) { memcpy(((Unit *)c)->q.x, x, n * sizeof *x); return OK; }
F(GetContinuousStates)(void *c, double *x, size_t n) { memcpy(x, ((Unit *)c)->q.x, n * sizeof *x); return OK; }
F(GetContinuousStateDerivatives)(void *c, double *d, size_t n) { (void)n; kz_field(&((Unit *)c)->q, ((Unit *)c)->q.t, ((Unit *)c)->q.x, d); return OK; }
F(GetNominalsOfContinuousStates)(void *c, double *x, size_t n) { (void)c; for (size_t i = 0; i < n; i++) x[i] = 1.0; return OK; }
F(GetEventIndicators)(void *c, double *z, size_t n)
{
    double value[KZ_ROOM(KZ_EVENTS)], slope[KZ_ROOM(KZ_EVENTS)], watched[KZ_ROOM(KZ_EVENTS)];
    kz_watch(&((Unit *)c)->q, ((Unit *)c)->q.t, ((Unit *)c)->q.x, value, slope, watched);
    memcpy(z, watched, n * sizeof *z);
    return OK;
}
F(GetNumberOfEventIndicators)(void *c, size_t *n) { (void)c; *n = KZ_EVENTS; return OK; }
F(GetNumberOfContinuousStates)(void *c, size_t *n) { (void)c; *n = KZ_STATES; return OK; }
F(EnterStepMode)(void *c) { (void)c; return OK; }
F(GetOutputDerivatives)(void *c, VECTOR, const int32_t *order, double *v, MANY) { (void)vr; (void)n; (void)order; (void)v; (void)count; return fail(c, "derivatives of outputs are not provided"); }
F(DoStep)(void *c, double from, double step, bool fixed, bool *event, bool *terminate, bool *early, double *last)
{
    (void)fixed;
    const int status = advanced(c, from, step);
    *event = *terminate = *early = false;
    *last = ((Unit *)c)->q.t;
    return status;
}
F(ActivateModelPartition)(void *c, Reference clock, double t) { (void)clock; (void)t; return fail(c, "there are no clocks"); }
#endif
