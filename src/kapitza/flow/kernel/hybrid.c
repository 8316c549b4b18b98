/* Taylor integration of systems with switches and walls.
 *
 * The stepper knows no model. A model is a tape: a list of operations on Taylor coefficients, integers and literals
 * only, written by tape.py. Every index of a tape is checked once, in kz_tape_new; after that no tape can make the
 * stepper read or write outside its arrays.
 *
 * Notation: c[node][k] is the k-th Taylor coefficient of a node in the time since the start of the step, T[node][k][j]
 * its derivative by column j (start states, then parameters). A watched function ends a regime when it falls through
 * zero: m s of a free switch, g of a free wall, 1 - z^2 of a stuck switch, z of a contact, the ends of terms.
 *
 * What happens at an event is decided here only where it is generic: a switch that is crossed or sticks, a stuck switch
 * that is released, a wall that is struck. Anything else (two surfaces at one instant, slow or grazing events, contact)
 * is returned to the caller with the state at the event.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#define KZ_API __declspec(dllexport)
#else
#define KZ_API __attribute__((visibility("default")))
#endif

/* A checksum of this file, given by whoever compiles it: a library of other sources is not loaded. */
#ifndef KZ_VERSION
#define KZ_VERSION 0
#endif
#define MOST_NODES 200000
#define MOST_STATES 4096
#define MOST_SURFACES 256
#define MOST_TERMS 1000000
#define MOST_COLUMNS 8192
#define MOST_ORDER 40
#define MOST_DOUBLES ((int64_t)1 << 28)

enum {
    OP_LITERAL, OP_PARAMETER, OP_STATE, OP_TIME,
    OP_LINEAR, OP_SCALE, OP_MULTIPLY, OP_SQUARE, OP_DIVIDE, OP_POWER, OP_SQRT,
    OP_EXP, OP_LOG, OP_SIN, OP_COS, OP_SINH, OP_COSH, OP_TAN, OP_TANH, OP_TAN_SLOPE,
    OP_ASIN, OP_ACOS, OP_ATAN, OP_ASINH, OP_ACOSH, OP_ATANH, OP_ERF, OP_ATAN2,
    OP_ABS, OP_SIGN, OP_MAX, OP_MIN, OP_GREATER, OP_GREATER_EQUAL, OP_EQUAL, OP_AND, OP_OR, OP_SELECT,
    OP_COUNT
};

/* Of a switch: the rates do not jump; its function holds modes of others; its mode stands in functions of others;
 * every event of it is returned to the caller. */
enum { CONTINUOUS = 1, NESTED = 2, INNER = 4, DELICATE = 8 };

enum { CROSS, STICK, RELEASE, IMPACT, CONTACT, DETACH, GRAZE, CROSSING, EDGE };

enum {
    DONE = 0,          /* t1 is reached */
    GIVEN_BACK = 1,    /* an event that is not generic: ending_kind, ending_index, state at the event */
    NEED_REGIME = 2,   /* as GIVEN_BACK; the regime in which switch ending_index sticks has no tape yet */
    FULL = 3,          /* no room for another event; call again after emptying the list */
    STEPS = 4, NOT_FINITE = 5, STALLED = 6, MEMORY = 7, MANY_EVENTS = 8, BAD_CALL = 9,
    UNSETTLED = 10     /* the start is on a surface, or close to one */
};

typedef struct {
    int32_t op, a, b, c;
} kz_node;

/* A tape of one regime. Nodes 0..constants-1 do not move; the states follow; reset nodes are evaluated at impacts. */
typedef struct kz_tape {
    int64_t number; /* of all tapes ever made: memory of one that was freed may hold another */
    int32_t nodes, all_nodes, constants, states, runtime, switches, walls, observed, edges, balances, limits;
    int32_t first_mode, trace, terms, literals;
    kz_node *code;
    int32_t *term_nodes, *term_scales; /* of a term: its node, and a node that does not move to multiply it with, or -1 */
    double *term_factors, *literal;
    int32_t *rate, *function, *surface, *observe, *edge, *balance, *limit, *balance_kind, *balance_index, *reset, *flags;
    int32_t *held; /* per switch: 1 while stuck, per wall (after the switches): 1 while in contact */
} kz_tape;

/* Sizes, in the order of the integers that Python passes. */
enum {
    S_NODES, S_ALL, S_CONSTANTS, S_STATES, S_RUNTIME, S_SWITCHES, S_WALLS, S_OBSERVED, S_EDGES, S_BALANCES,
    S_LIMITS, S_FIRST_MODE, S_TRACE, S_TERMS, S_LITERALS, S_COUNT
};

static void *copied(const void *from, int64_t count, size_t size) {
    void *to = malloc((size_t)(count > 0 ? count : 1) * size);
    if (to && count > 0) memcpy(to, from, (size_t)count * size);
    return to;
}

KZ_API void kz_tape_free(kz_tape *tape) {
    if (!tape) return;
    free(tape->code); free(tape->term_nodes); free(tape->term_scales); free(tape->term_factors); free(tape->literal); free(tape->rate);
    free(tape->function); free(tape->surface); free(tape->observe); free(tape->edge); free(tape->balance); free(tape->limit);
    free(tape->balance_kind); free(tape->balance_index); free(tape->reset); free(tape->flags); free(tape->held);
    free(tape);
}

static int within(int32_t value, int32_t low, int32_t high) { return value >= low && value < high; }

static int all_within(const int32_t *values, int64_t count, int32_t low, int32_t high) {
    for (int64_t i = 0; i < count; i++)
        if (!within(values[i], low, high)) return 0;
    return 1;
}

/* Is the node well formed: operands before it, and moving operations not in the constant part? */
static int is_valid(const kz_tape *tape, int32_t at) {
    const kz_node *node = tape->code + at;
    int32_t first = tape->constants, last = tape->constants + tape->states;
    switch (node->op) {
    case OP_LITERAL: return at < first && within(node->a, 0, tape->literals);
    case OP_PARAMETER: return at < first && within(node->a, 0, tape->runtime);
    case OP_STATE: return within(at, first, last) && node->a == at - first;
    case OP_TIME: return at >= last;
    case OP_LINEAR:
        if (node->b < 0 || node->a < 0 || node->a > tape->terms - node->b || !within(node->c, 0, tape->literals))
            return 0;
        for (int32_t i = 0; i < node->b; i++)
            if (!within(tape->term_nodes[node->a + i], 0, at) || !within(tape->term_scales[node->a + i], -1, at < first ? 0 : first))
                return 0;
        return at < first || at >= last;
    case OP_POWER: return within(node->a, 0, at) && within(node->b, 0, tape->literals) && (at < first || at >= last);
    case OP_SIN: case OP_COS: case OP_SINH: case OP_COSH: {
        /* Pairs: sine then cosine, of one argument. */
        int sine = node->op == OP_SIN || node->op == OP_SINH;
        int32_t other = sine ? at + 1 : at - 1;
        if (!within(other, 0, tape->all_nodes)) return 0;
        if ((other < first) != (at < first) || (other >= tape->nodes) != (at >= tape->nodes)) return 0;
        int32_t wanted = node->op == OP_SIN ? OP_COS : node->op == OP_COS ? OP_SIN : node->op == OP_SINH ? OP_COSH : OP_SINH;
        return tape->code[other].op == wanted && tape->code[other].a == node->a && within(node->a, 0, sine ? at : other) &&
               (at < first || at >= last);
    }
    case OP_TAN: case OP_TANH:
        if (!within(at + 1, 0, tape->all_nodes) || tape->code[at + 1].op != OP_TAN_SLOPE) return 0;
        if ((at + 1 < first) != (at < first) || (at + 1 >= tape->nodes) != (at >= tape->nodes)) return 0;
        return within(node->a, 0, at) && (at < first || at >= last);
    case OP_TAN_SLOPE: return at > 0 && (tape->code[at - 1].op == OP_TAN || tape->code[at - 1].op == OP_TANH);
    case OP_SELECT:
        return within(node->a, 0, first) && within(node->b, 0, at) && within(node->c, 0, at) && (at < first || at >= last) &&
               node->a < at;
    case OP_ABS: case OP_SIGN: return at < first && within(node->a, 0, at);
    case OP_MAX: case OP_MIN: case OP_GREATER: case OP_GREATER_EQUAL: case OP_EQUAL: case OP_AND: case OP_OR:
        return at < first && within(node->a, 0, at) && within(node->b, 0, at);
    case OP_SCALE: /* a does not move */
        return within(node->a, 0, first) && within(node->b, 0, at) && at >= last;
    case OP_MULTIPLY: case OP_DIVIDE:
        return within(node->a, 0, at) && within(node->b, 0, at) && (at < first || at >= last);
    case OP_SQUARE: case OP_SQRT: case OP_EXP:
        return within(node->a, 0, at) && (at < first || at >= last);
    case OP_LOG: case OP_ASIN: case OP_ACOS: case OP_ATAN: case OP_ASINH: case OP_ACOSH: case OP_ATANH: case OP_ERF:
        return within(node->a, 0, at) && within(node->b, 0, at) && (at < first || at >= last);
    case OP_ATAN2:
        return within(node->a, 0, at) && within(node->b, 0, at) && within(node->c, 0, at) && (at < first || at >= last);
    default: return 0;
    }
}

/* Operands of ordinary nodes must not be reset nodes; topological order gives that, as reset nodes come last. */
KZ_API int kz_tape_new(const int32_t *sizes, const int32_t *code, const int32_t *term_nodes, const int32_t *term_scales,
                       const double *term_factors,
                       const double *literals, const int32_t *outputs, const int64_t *lengths, kz_tape **made) {
    *made = NULL;
    for (int i = 0; i < S_COUNT; i++)
        if (sizes[i] < (i == S_TRACE ? -1 : 0)) return BAD_CALL;
    if (sizes[S_ALL] > MOST_NODES || sizes[S_NODES] > sizes[S_ALL] || sizes[S_STATES] < 1 || sizes[S_STATES] > MOST_STATES ||
        sizes[S_SWITCHES] > MOST_SURFACES || sizes[S_WALLS] > MOST_SURFACES || sizes[S_OBSERVED] > MOST_SURFACES ||
        sizes[S_EDGES] > MOST_SURFACES || sizes[S_BALANCES] > MOST_SURFACES || sizes[S_LIMITS] > MOST_TERMS || sizes[S_TERMS] > MOST_TERMS ||
        sizes[S_LITERALS] > MOST_TERMS || sizes[S_RUNTIME] > MOST_TERMS ||
        sizes[S_CONSTANTS] > sizes[S_NODES] - sizes[S_STATES] ||
        sizes[S_FIRST_MODE] > sizes[S_RUNTIME] - sizes[S_SWITCHES] || sizes[S_TRACE] >= sizes[S_NODES])
        return BAD_CALL;
    int32_t n = sizes[S_STATES], ns = sizes[S_SWITCHES], nw = sizes[S_WALLS];
    int64_t expected = (int64_t)n + ns + nw + sizes[S_OBSERVED] + sizes[S_EDGES] + 3 * (int64_t)sizes[S_BALANCES] + sizes[S_LIMITS] +
                       (int64_t)nw * n + ns + ns + nw;
    /* lengths: of the arrays as they are: nodes, terms, scales, factors, literals, outputs. */
    if (lengths[0] != sizes[S_ALL] || lengths[1] != sizes[S_TERMS] || lengths[2] != sizes[S_TERMS] ||
        lengths[3] != sizes[S_TERMS] || lengths[4] != sizes[S_LITERALS] || lengths[5] != expected)
        return BAD_CALL;
    kz_tape *tape = calloc(1, sizeof *tape);
    if (!tape) return MEMORY;
    static int64_t made_before = 0;
    tape->number = __atomic_add_fetch(&made_before, 1, __ATOMIC_RELAXED);
    tape->nodes = sizes[S_NODES]; tape->all_nodes = sizes[S_ALL]; tape->constants = sizes[S_CONSTANTS];
    tape->states = n; tape->runtime = sizes[S_RUNTIME]; tape->switches = ns; tape->walls = nw;
    tape->observed = sizes[S_OBSERVED]; tape->edges = sizes[S_EDGES]; tape->balances = sizes[S_BALANCES];
    tape->limits = sizes[S_LIMITS];
    tape->first_mode = sizes[S_FIRST_MODE]; tape->trace = sizes[S_TRACE];
    tape->terms = sizes[S_TERMS]; tape->literals = sizes[S_LITERALS];
    tape->code = copied(code, tape->all_nodes, sizeof *tape->code);
    tape->term_nodes = copied(term_nodes, tape->terms, sizeof *tape->term_nodes);
    tape->term_scales = copied(term_scales, tape->terms, sizeof *tape->term_scales);
    tape->term_factors = copied(term_factors, tape->terms, sizeof *tape->term_factors);
    tape->literal = copied(literals, tape->literals, sizeof *tape->literal);
    const int32_t *next = outputs;
#define TAKE(field, count) do { tape->field = copied(next, (count), sizeof(int32_t)); next += (count); } while (0)
    TAKE(rate, n); TAKE(function, ns); TAKE(surface, nw); TAKE(observe, tape->observed); TAKE(edge, tape->edges);
    TAKE(balance, tape->balances); TAKE(limit, tape->limits); TAKE(balance_kind, tape->balances); TAKE(balance_index, tape->balances);
    TAKE(reset, (int64_t)nw * n); TAKE(flags, ns); TAKE(held, ns + nw);
#undef TAKE
    int right = tape->code && tape->term_nodes && tape->term_scales && tape->term_factors && tape->literal && tape->rate && tape->function &&
                tape->surface && tape->observe && tape->edge && tape->balance && tape->limit && tape->balance_kind &&
                tape->balance_index && tape->reset && tape->flags && tape->held;
    int status = right ? DONE : MEMORY;
    for (int32_t at = 0; right && at < tape->all_nodes; at++) right = is_valid(tape, at);
    if (right && tape->all_nodes < tape->constants + n) right = 0;
    right = right && all_within(tape->rate, n, 0, tape->nodes) && all_within(tape->function, ns, 0, tape->nodes) &&
            all_within(tape->surface, nw, 0, tape->nodes) && all_within(tape->observe, tape->observed, 0, tape->nodes) &&
            all_within(tape->edge, tape->edges, 0, tape->nodes) && all_within(tape->balance, tape->balances, 0, tape->nodes) &&
            all_within(tape->limit, tape->limits, 0, tape->nodes) &&
            all_within(tape->reset, (int64_t)nw * n, 0, tape->all_nodes) && all_within(tape->balance_kind, tape->balances, 0, 2) &&
            all_within(tape->flags, ns, 0, 16) && all_within(tape->held, ns + nw, 0, 2);
    for (int32_t i = 0; right && i < tape->balances; i++)
        right = within(tape->balance_index[i], 0, tape->balance_kind[i] ? nw : ns);
    if (!right) {
        kz_tape_free(tape);
        return status == MEMORY ? MEMORY : BAD_CALL;
    }
    *made = tape;
    return DONE;
}

/* Two numbers side by side, as every processor has them: sums are taken in the same order everywhere. */
typedef double kz_two __attribute__((vector_size(16)));
#define LANES 2
static const kz_two NOTHING = {0.0, 0.0};
#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE kz_two two_at(const double *p) {
    kz_two v;
    memcpy(&v, p, sizeof v);
    return v;
}

ALWAYS_INLINE void put_two(double *p, kz_two v) { memcpy(p, &v, sizeof v); }

/* A term of a sum: its node, what multiplies it, and the tangents of both (NULL where they vanish). */
typedef struct {
    const double *value;
    double weight; /* factor times scale */
    const double *tangent, *scale, *slope;
    double factor;
    int32_t node;
} kz_term;

/* A node with its operands looked up. Tangents are NULL where they vanish. */
typedef struct {
    int32_t op, degree, terms, moving; /* moving: terms that move come first */
    double inverse; /* of what every coefficient is divided by */
    double *y, *Y;
    const double *a, *b, *d, *A, *B, *D;
    kz_term *term;
    double number;
    int32_t parameter;
} kz_step;

enum { AT_REST, BY_CLOCK, MOVING, AT_RESET, PARTS };

/* Coefficients of one tape. columns: tangent columns, 0 without; width: the same, padded.
 *
 * A node has `span` numbers: c_k from 0 on, c_k in reversed order from `stride` on, k c_k from 2 stride on. Products of
 * series then are scalar products of two rows. */
typedef struct {
    const kz_tape *tape;
    int64_t number; /* of the tape */
    int order, stride, span;
    int32_t columns, width;
    double *c, *T;
    double *size; /* natural size of each node at the start of a step, for tests against rounding */
    double *modes; /* with which the nodes that do not move have been evaluated */
    int is_ready;
    kz_step *steps; /* in the order of evaluation: constants, omega t, what else moves, resets */
    int32_t counts[PARTS];
    kz_term *term;
} kz_work;

static void closed(kz_work *work) {
    free(work->c); free(work->T); free(work->size); free(work->modes); free(work->steps); free(work->term);
    memset(work, 0, sizeof *work);
}

/* Operands of a node: at most three; the terms of a sum are apart. */
static int operands(const kz_node *node, int32_t at, int32_t *found) {
    switch (node->op) {
    case OP_LITERAL: case OP_PARAMETER: case OP_STATE: case OP_TIME: case OP_LINEAR: return 0;
    case OP_TAN_SLOPE: found[0] = at - 1; return 1;
    case OP_SQUARE: case OP_POWER: case OP_SQRT: case OP_EXP: case OP_SIN: case OP_COS: case OP_SINH: case OP_COSH:
    case OP_TAN: case OP_TANH: case OP_ABS: case OP_SIGN: found[0] = node->a; return 1;
    case OP_SELECT: case OP_ATAN2: found[0] = node->a; found[1] = node->b; found[2] = node->c; return 3;
    default: found[0] = node->a; found[1] = node->b; return 2;
    }
}

/* Is one of the operands marked? */
static int any_marked(const kz_tape *tape, int32_t at, const unsigned char *mark) {
    const kz_node *node = tape->code + at;
    int32_t found[3];
    for (int i = operands(node, at, found) - 1; i >= 0; i--)
        if (mark[found[i]]) return 1;
    if (node->op == OP_LINEAR)
        for (int32_t i = node->a; i < node->a + node->b; i++)
            if (mark[tape->term_nodes[i]] || (tape->term_scales[i] >= 0 && mark[tape->term_scales[i]])) return 1;
    return 0;
}

/* Which nodes have tangents: those made of states, or of parameters of the sensitivities. */
static void mark_nodes(const kz_tape *tape, const int32_t *wrt, int32_t columns, unsigned char *mark) {
    for (int32_t at = 0; at < tape->all_nodes; at++) {
        const kz_node *node = tape->code + at;
        mark[at] = node->op == OP_STATE || any_marked(tape, at, mark);
        if (node->op == OP_PARAMETER)
            for (int32_t j = tape->states; j < columns; j++)
                if (wrt[j - tape->states] == node->a) mark[at] = 1;
    }
}

/* One node with its operands looked up. */
static void look_up(kz_work *w, int32_t at, const unsigned char *mark, kz_step *step) {
    const kz_tape *tape = w->tape;
    const kz_node *node = tape->code + at;
    int32_t found[3];
#define VALUE(i) (w->c + (int64_t)(i) * w->span)
#define TANGENT(i) (w->T && mark[i] ? w->T + (int64_t)(i) * (w->order + 1) * w->width : NULL)
    memset(step, 0, sizeof *step);
    step->op = node->op; step->y = VALUE(at); step->Y = TANGENT(at);
    int count = operands(node, at, found);
    const double **values[] = {&step->a, &step->b, &step->d}, **tangents[] = {&step->A, &step->B, &step->D};
    for (int i = 0; i < count; i++) { *values[i] = VALUE(found[i]); *tangents[i] = TANGENT(found[i]); }
    switch (node->op) {
    case OP_LITERAL: step->number = tape->literal[node->a]; break;
    case OP_PARAMETER: step->parameter = node->a; break;
    case OP_POWER: step->number = tape->literal[node->b]; break;
    case OP_SIN: case OP_COS: case OP_SINH: case OP_COSH: step->degree = node->b; break;
    case OP_LINEAR:
        step->number = tape->literal[node->c];
        step->term = w->term + node->a;
        for (int moving = 1; moving >= 0; moving--) {
            for (int32_t i = node->a; i < node->a + node->b; i++) {
                int32_t from = tape->term_nodes[i], scale = tape->term_scales[i];
                if ((from >= tape->constants) != moving) continue;
                kz_term *term = step->term + step->terms++;
                term->node = from; term->value = VALUE(from); term->tangent = TANGENT(from);
                term->scale = scale >= 0 ? VALUE(scale) : NULL; term->slope = scale >= 0 ? TANGENT(scale) : NULL;
                term->factor = term->weight = tape->term_factors[i];
            }
            if (moving) step->moving = step->terms;
        }
        break;
    default: break;
    }
#undef VALUE
#undef TANGENT
}

/* Time, or a multiple of it: only two of its coefficients are not zero. */
static int is_linear_in_time(const kz_tape *tape, int32_t at) {
    const kz_node *node = tape->code + at;
    return node->op == OP_TIME || (node->op == OP_SCALE && tape->code[node->b].op == OP_TIME);
}

/* The part of a tape that a node belongs to, or -1: the second of a pair is computed with the first. */
static int part_of(const kz_tape *tape, int32_t at) {
    int32_t op = tape->code[at].op;
    if (op == OP_STATE || op == OP_SIN || op == OP_SINH || op == OP_TAN_SLOPE) return -1;
    return at < tape->constants ? AT_REST : at >= tape->nodes ? AT_RESET : is_linear_in_time(tape, at) ? BY_CLOCK : MOVING;
}

static int opened(kz_work *work, const kz_tape *tape, int order, int32_t columns, const int32_t *wrt) {
    memset(work, 0, sizeof *work);
    work->tape = tape; work->number = tape->number; work->order = order; work->columns = columns;
    work->width = (columns + LANES - 1) / LANES * LANES;
    work->stride = order + 1;
    work->span = 3 * work->stride;
    int64_t values = (int64_t)tape->all_nodes * work->span, rows = (int64_t)tape->all_nodes * (order + 1) * work->width;
    if (values > MOST_DOUBLES || rows > MOST_DOUBLES) return 0;
    unsigned char *mark = calloc((size_t)tape->all_nodes + 1, 1);
    work->c = calloc((size_t)values + 1, sizeof(double));
    work->size = calloc((size_t)tape->all_nodes + 1, sizeof(double));
    work->modes = calloc((size_t)tape->switches + 1, sizeof(double));
    work->steps = calloc((size_t)tape->all_nodes + 1, sizeof *work->steps);
    work->term = calloc((size_t)tape->terms + 1, sizeof *work->term);
    work->T = columns ? calloc((size_t)rows + 1, sizeof(double)) : NULL;
    int right = mark && work->c && work->size && work->modes && work->steps && work->term && (!columns || work->T);
    if (right) {
        int32_t count = 0;
        mark_nodes(tape, wrt, columns, mark);
        for (int part = AT_REST; part <= AT_RESET; part++)
            for (int32_t at = 0; at < tape->all_nodes; at++)
                if (part_of(tape, at) == part) { look_up(work, at, mark, work->steps + count++); work->counts[part]++; }
    }
    free(mark);
    return right;
}

/* Scalar product of n numbers. */
ALWAYS_INLINE double dot(const double *p, const double *q, int n) {
    kz_two s = NOTHING, r = NOTHING;
    int j = 0;
    for (; j + 3 < n; j += 4) {
        s += two_at(p + j) * two_at(q + j);
        r += two_at(p + j + 2) * two_at(q + j + 2);
    }
    if (j + 1 < n) {
        s += two_at(p + j) * two_at(q + j);
        j += 2;
    }
    s += r;
    return j < n ? (s[0] + s[1]) + p[j] * q[j] : s[0] + s[1];
}

/* The same where the first numbers of q have just been stored: loads of two would wait for stores of one. */
ALWAYS_INLINE double late_dot(const double *p, const double *q, int n) {
    if (n < 3) return n < 1 ? 0.0 : n == 1 ? p[0] * q[0] : p[0] * q[0] + p[1] * q[1];
    return (p[0] * q[0] + (p[1] * q[1] + p[2] * q[2])) + dot(p + 3, q + 3, n - 3);
}

/* sum over j = 1..k-1 of y[j] y[k-j] */
ALWAYS_INLINE double own_dot(const double *y, int k) {
    double s0 = 0.0, s1 = 0.0;
    int j = 1;
    for (; 2 * (j + 1) < k; j += 2) {
        s0 += y[j] * y[k - j];
        s1 += y[j + 1] * y[k - j - 1];
    }
    if (2 * j < k) s0 += y[j] * y[k - j];
    return 2.0 * (s0 + s1) + (k > 1 && k % 2 == 0 ? y[k / 2] * y[k / 2] : 0.0);
}

/* sum over j = from..k of p[j] Q[k-j], two columns. */
ALWAYS_INLINE kz_two spread(const double *p, const double *Q, int k, int from, int64_t width) {
    kz_two s0 = NOTHING, s1 = NOTHING, s2 = NOTHING, s3 = NOTHING;
    const double *row = Q + (k - from) * width;
    int j = from;
    for (; j + 2 < k; j += 4, row -= 4 * width) {
        s0 += p[j] * two_at(row);
        s1 += p[j + 1] * two_at(row - width);
        s2 += p[j + 2] * two_at(row - 2 * width);
        s3 += p[j + 3] * two_at(row - 3 * width);
    }
    for (; j <= k; j++, row -= width) s0 += p[j] * two_at(row);
    return (s0 + s1) + (s2 + s3);
}

static double start_value(int32_t op, double a) {
    switch (op) {
    case OP_LOG: return log(a);
    case OP_ASIN: return asin(a);
    case OP_ACOS: return acos(a);
    case OP_ATAN: return atan(a);
    case OP_ASINH: return asinh(a);
    case OP_ACOSH: return acosh(a);
    case OP_ATANH: return atanh(a);
    default: return NAN;
    }
}

#define TWO_OVER_ROOT_PI 1.1283791670955126

static const double NUMBER[MOST_ORDER + 1] = {
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
    21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40,
};

/* 1 / k */
static const double SHARE[MOST_ORDER + 2] = {
    1.0, 1.0, 1.0 / 2, 1.0 / 3, 1.0 / 4, 1.0 / 5, 1.0 / 6, 1.0 / 7, 1.0 / 8, 1.0 / 9, 1.0 / 10, 1.0 / 11, 1.0 / 12, 1.0 / 13,
    1.0 / 14, 1.0 / 15, 1.0 / 16, 1.0 / 17, 1.0 / 18, 1.0 / 19, 1.0 / 20, 1.0 / 21, 1.0 / 22, 1.0 / 23, 1.0 / 24, 1.0 / 25,
    1.0 / 26, 1.0 / 27, 1.0 / 28, 1.0 / 29, 1.0 / 30, 1.0 / 31, 1.0 / 32, 1.0 / 33, 1.0 / 34, 1.0 / 35, 1.0 / 36, 1.0 / 37,
    1.0 / 38, 1.0 / 39, 1.0 / 40, 1.0 / 41,
};

/* The k-th coefficient of one node, and its tangents where with_tangents. */
ALWAYS_INLINE void advance_node(const kz_work *w, kz_step *p, int k, const double *runtime, const int32_t *wrt, double t,
                                int with_tangents) {
    const int stride = w->stride, back = w->stride + w->order - k; /* c_{k-j} of a row lies at [back + j] */
    const int64_t width = w->width;
    const double *a = p->a, *b = p->b, *d = p->d, *A = p->A, *B = p->B, *D = p->D;
    double *y = p->y, *Y = p->Y, value, number = NUMBER[k];
/* sum over j = 1..k-1 of p[j] q[k-j], or of j p[j] q[k-j]. The newest coefficients, p[k] and q[k], are added apart: the
 * sums can be taken before these are known, and loads of two would wait for a store of one. */
#define INNER_SUM(p, q) dot((p) + 1, (q) + back + 1, k - 1)
#define INNER_RATE(p, q) dot((p) + 2 * stride + 1, (q) + back + 1, k - 1)
#define LATE_SUM(p, q) late_dot((p) + 1, (q) + back + 1, k - 1)
#define LATE_RATE(p, q) late_dot((p) + 2 * stride + 1, (q) + back + 1, k - 1)
#define PRODUCT(p, q) (k ? INNER_SUM(p, q) + ((p)[0] * (q)[k] + (p)[k] * (q)[0]) : (p)[0] * (q)[0])
#define RATE(p, q) (LATE_RATE(p, q) + (number * (p)[k]) * (q)[0])
#define EACH_PAIR(i) for (int64_t i = 0; i < width; i += LANES)
#define ROW(Q, i) two_at((Q) + k * width + (i))
#define SUM(p, Q, from, i) ((Q) ? spread((p), (Q) + (i), k, (from), width) : NOTHING)
#define PUT(row, v) do { double put_ = (v); (row)[k] = put_; (row)[back] = put_; (row)[2 * stride + k] = number * put_; } while (0)
    int moves = with_tangents && Y;
    switch (p->op) {
    case OP_LITERAL: value = p->number; break;
    case OP_PARAMETER:
        value = runtime[p->parameter];
        if (moves)
            for (int32_t j = w->tape->states; j < w->columns; j++) Y[j] = wrt[j - w->tape->states] == p->parameter ? 1.0 : 0.0;
        break;
    case OP_TIME: value = k == 0 ? t : k == 1 ? 1.0 : 0.0; break;
    case OP_LINEAR: {
        int32_t count = k ? p->moving : p->terms;
        value = k ? 0.0 : p->number;
        const kz_term *term = p->term;
        if (count == 1) value += term->weight * term->value[k];
        else if (count == 2) value += term->weight * term->value[k] + term[1].weight * term[1].value[k];
        else
            for (int32_t i = 0; i < count; i++) value += term[i].weight * term[i].value[k];
        if (moves)
            EACH_PAIR(i) {
                kz_two sum = NOTHING;
                for (int32_t m = 0; m < count; m++) {
                    if (term[m].tangent) sum += term[m].weight * ROW(term[m].tangent, i);
                    if (term[m].slope) sum += (term[m].factor * term[m].value[k]) * two_at(term[m].slope + i);
                }
                put_two(Y + k * width + i, sum);
            }
        break;
    }
    case OP_SCALE:
        value = a[0] * b[k];
        if (moves)
            EACH_PAIR(i) {
                kz_two sum = NOTHING;
                if (B) sum = a[0] * ROW(B, i);
                if (A) sum += b[k] * two_at(A + i);
                put_two(Y + k * width + i, sum);
            }
        break;
    case OP_MULTIPLY:
        value = PRODUCT(a, b);
        if (moves) EACH_PAIR(i) put_two(Y + k * width + i, SUM(a, B, 0, i) + SUM(b, A, 0, i));
        break;
    case OP_SQUARE:
        value = PRODUCT(a, a);
        if (moves) EACH_PAIR(i) put_two(Y + k * width + i, 2.0 * SUM(a, A, 0, i));
        break;
    case OP_DIVIDE:
        if (k == 0) p->inverse = 1.0 / b[0];
        value = k ? ((a[k] - b[k] * y[0]) - LATE_SUM(b, y)) * p->inverse : a[0] / b[0];
        y[k] = value;
        if (moves)
            EACH_PAIR(i) {
                kz_two sum = -SUM(y, B, 0, i);
                if (A) sum += ROW(A, i);
                if (k) sum -= SUM(b, Y, 1, i);
                put_two(Y + k * width + i, sum * p->inverse);
            }
        break;
    case OP_POWER: {
        double e = p->number;
        if (k == 0) value = pow(a[0], e);
        else {
            double sum = 0.0;
            for (int j = 0; j < k; j++) sum += (e * (k - j) - j) * a[k - j] * y[j];
            value = sum / (k * a[0]);
        }
        y[k] = value;
        if (moves)
            EACH_PAIR(i) {
                kz_two sum = e * SUM(y, A, 0, i);
                if (k) sum -= SUM(a, Y, 1, i);
                put_two(Y + k * width + i, sum / a[0]);
            }
        break;
    }
    case OP_SQRT:
        value = k == 0 ? sqrt(a[0]) : (a[k] - own_dot(y, k)) * p->inverse;
        if (k == 0) p->inverse = 0.5 / value;
        y[k] = value;
        if (moves)
            EACH_PAIR(i) {
                kz_two sum = ROW(A, i);
                if (k) sum -= 2.0 * SUM(y, Y, 1, i);
                put_two(Y + k * width + i, sum * p->inverse);
            }
        break;
    case OP_EXP:
        value = k == 0 ? exp(a[0]) : SHARE[k] * RATE(a, y);
        y[k] = value;
        if (moves) EACH_PAIR(i) put_two(Y + k * width + i, SUM(y, A, 0, i));
        break;
    case OP_COS: case OP_COSH: {
        /* degree: of an argument that is a polynomial in time, as omega t; 0 where it is not. */
        double *sine = y - w->span, sign = p->op == OP_COS ? -1.0 : 1.0, other;
        if (k == 0) {
            other = p->op == OP_COS ? sin(a[0]) : sinh(a[0]);
            value = p->op == OP_COS ? cos(a[0]) : cosh(a[0]);
        } else if (p->degree == 1) {
            other = SHARE[k] * a[1] * y[k - 1];
            value = sign * SHARE[k] * a[1] * sine[k - 1];
        } else {
            other = SHARE[k] * RATE(a, y);
            value = sign * SHARE[k] * RATE(a, sine);
        }
        PUT(sine, other);
        y[k] = value;
        if (moves) {
            double *S = Y - (int64_t)(w->order + 1) * width;
            int from = p->degree > 0 && p->degree < k ? k - p->degree : 0;
            EACH_PAIR(i) {
                put_two(S + k * width + i, SUM(y, A, from, i));
                put_two(Y + k * width + i, sign * SUM(sine, A, from, i));
            }
        }
        break;
    }
    case OP_TAN: case OP_TANH: {
        /* y' = q a' with q = 1 + y^2 (1 - y^2 of tanh), which is the node that follows. */
        double *q = y + w->span, sign = p->op == OP_TAN ? 1.0 : -1.0;
        value = k == 0 ? (p->op == OP_TAN ? tan(a[0]) : tanh(a[0])) : SHARE[k] * RATE(a, q);
        PUT(y, value);
        PUT(q, (k == 0 ? 1.0 : 0.0) + sign * PRODUCT(y, y));
        if (moves) {
            double *Q = Y + (int64_t)(w->order + 1) * width;
            EACH_PAIR(i) put_two(Y + k * width + i, SUM(q, A, 0, i));
            EACH_PAIR(i) put_two(Q + k * width + i, (2.0 * sign) * SUM(y, Y, 0, i));
        }
        break;
    }
    case OP_LOG: case OP_ASIN: case OP_ACOS: case OP_ATAN: case OP_ASINH: case OP_ACOSH: case OP_ATANH: {
        /* b y' = a' with the node b (of log: a itself; of acos with the other sign). */
        double sign = p->op == OP_ACOS ? -1.0 : 1.0;
        value = k == 0 ? start_value(p->op, a[0]) : (sign * k * a[k] - INNER_RATE(y, b)) / (k * b[0]);
        if (moves)
            EACH_PAIR(i) {
                kz_two sum = NOTHING;
                if (A) sum = sign * ROW(A, i);
                if (k) sum -= SUM(b, Y, 1, i);
                put_two(Y + k * width + i, sum / b[0]);
            }
        break;
    }
    case OP_ERF: /* b = exp(-a^2) */
        value = k == 0 ? erf(a[0]) : TWO_OVER_ROOT_PI * SHARE[k] * RATE(a, b);
        if (moves) EACH_PAIR(i) put_two(Y + k * width + i, TWO_OVER_ROOT_PI * SUM(b, A, 0, i));
        break;
    case OP_ATAN2: /* of a, b; d = a^2 + b^2 */
        value = k == 0 ? atan2(a[0], b[0]) : (RATE(a, b) - RATE(b, a) - INNER_RATE(y, d)) / (k * d[0]);
        if (moves)
            EACH_PAIR(i) {
                kz_two sum = SUM(b, A, 0, i) - SUM(a, B, 0, i);
                if (k) sum -= SUM(d, Y, 1, i);
                put_two(Y + k * width + i, sum / d[0]);
            }
        break;
    case OP_SELECT: {
        const double *from = a[0] != 0.0 ? b : d, *change = a[0] != 0.0 ? B : D;
        value = from[k];
        if (moves) EACH_PAIR(i) put_two(Y + k * width + i, change ? ROW(change, i) : NOTHING);
        break;
    }
    case OP_ABS: case OP_SIGN: {
        double side = a[0] > 0 ? 1.0 : a[0] < 0 ? -1.0 : 0.0;
        value = p->op == OP_ABS ? fabs(a[0]) : side;
        if (moves && p->op == OP_ABS) EACH_PAIR(i) put_two(Y + i, side * two_at(A + i));
        break;
    }
    case OP_MAX: case OP_MIN: {
        int first = p->op == OP_MAX ? a[0] > b[0] : a[0] < b[0];
        const double *change = first ? A : B;
        value = first ? a[0] : b[0];
        if (moves) EACH_PAIR(i) put_two(Y + i, change ? two_at(change + i) : NOTHING);
        break;
    }
    case OP_GREATER: value = a[0] > b[0]; break;
    case OP_GREATER_EQUAL: value = a[0] >= b[0]; break;
    case OP_EQUAL: value = a[0] == b[0]; break;
    case OP_AND: value = a[0] != 0.0 && b[0] != 0.0; break;
    case OP_OR: value = a[0] != 0.0 || b[0] != 0.0; break;
    default: return;
    }
    PUT(y, value);
#undef PRODUCT
#undef INNER_SUM
#undef INNER_RATE
#undef LATE_SUM
#undef LATE_RATE
#undef RATE
#undef EACH_PAIR
#undef ROW
#undef SUM
}

/* ---------------------------------------------------------------------------------------------- evaluation */

static inline double value(const kz_work *w, int32_t node, int k) { return w->c[(int64_t)node * w->span + k]; }

static inline double *series(const kz_work *w, int32_t node) { return w->c + (int64_t)node * w->span; }

static inline double *tangent(const kz_work *w, int32_t node, int k) {
    return w->T + ((int64_t)node * (w->order + 1) + k) * w->width;
}

/* Nodes made of parameters and modes: again only where a mode has changed. */
static void evaluate_constants(kz_work *w, const double *runtime, const int32_t *wrt, double t) {
    const kz_tape *tape = w->tape;
    size_t size = (size_t)tape->switches * sizeof(double);
    kz_step *p = w->steps;
    if (w->is_ready && memcmp(w->modes, runtime + tape->first_mode, size) == 0) return;
    memcpy(w->modes, runtime + tape->first_mode, size);
    w->is_ready = 1;
    for (int32_t i = 0; i < w->counts[AT_REST]; i++) advance_node(w, p + i, 0, runtime, wrt, t, 1);
    for (int32_t i = 0; i < tape->terms; i++)
        if (w->term[i].scale) w->term[i].weight = w->term[i].factor * w->term[i].scale[0];
}

ALWAYS_INLINE void put_state(const kz_work *w, int32_t i, int k, double v) {
    double *row = series(w, w->tape->constants + i);
    row[k] = v;
    row[w->stride + w->order - k] = v;
    row[2 * w->stride + k] = NUMBER[k] * v;
}

ALWAYS_INLINE void evaluate_as(kz_work *w, const double *runtime, const int32_t *wrt, double t, int order, int with_tangents) {
    const kz_tape *tape = w->tape;
    const int32_t first = tape->constants, n = tape->states, by_clock = w->counts[BY_CLOCK], moving = w->counts[MOVING];
    const int64_t width = w->width;
    kz_step *clock = w->steps + w->counts[AT_REST], *p = clock + by_clock;
    for (int32_t i = 0; i < by_clock + moving; i++) advance_node(w, clock + i, 0, runtime, wrt, t, with_tangents);
    for (int32_t i = 0; order > 0 && i < by_clock; i++) advance_node(w, clock + i, 1, runtime, wrt, t, with_tangents);
    for (int k = 1; k <= order; k++) {
        for (int32_t i = 0; i < n; i++) {
            int32_t from = tape->rate[i];
            put_state(w, i, k, SHARE[k] * value(w, from, k - 1));
            if (with_tangents) {
                const double *rate = tangent(w, from, k - 1);
                double *row = tangent(w, first + i, k);
                for (int64_t j = 0; j < width; j += LANES) put_two(row + j, SHARE[k] * two_at(rate + j));
            }
        }
        for (int32_t i = 0; i < moving; i++) advance_node(w, p + i, k, runtime, wrt, t, with_tangents);
    }
}

/* Coefficients 0..order of all ordinary nodes along the motion that starts at x with tangents V (rows of `columns`).
 * identity: tangents by the state itself instead of V. */
static void evaluate(kz_work *w, const double *runtime, const int32_t *wrt, double t, const double *x, const double *V,
                     int identity, int order) {
    const kz_tape *tape = w->tape;
    const int32_t first = tape->constants, n = tape->states;
    evaluate_constants(w, runtime, wrt, t);
    for (int32_t i = 0; i < n; i++) {
        put_state(w, i, 0, x[i]);
        if (w->T) {
            double *row = tangent(w, first + i, 0);
            for (int32_t j = 0; j < w->columns; j++) row[j] = identity ? (j == i) : V[(int64_t)i * w->columns + j];
        }
    }
    if (w->T) evaluate_as(w, runtime, wrt, t, order, 1);
    else evaluate_as(w, runtime, wrt, t, order, 0);
}

static void evaluate_resets(kz_work *w, const double *runtime, const int32_t *wrt, double t) {
    kz_step *p = w->steps + w->counts[AT_REST] + w->counts[BY_CLOCK] + w->counts[MOVING];
    for (int k = 0; k <= 1; k++)
        for (int32_t i = 0; i < w->counts[AT_RESET]; i++) advance_node(w, p + i, k, runtime, wrt, t, 1);
}

/* How large the terms are whose sum a node is: its rounding error is of that size. */
static void measure_sizes(kz_work *w) {
    const kz_tape *tape = w->tape;
    double *m = w->size;
    for (int32_t at = 0; at < tape->nodes; at++) {
        const kz_node *node = tape->code + at;
        double y = fabs(value(w, at, 0));
        switch (node->op) {
        case OP_LINEAR: {
            double sum = fabs(tape->literal[node->c]);
            for (const kz_term *term = w->term + node->a; term < w->term + node->a + node->b; term++)
                sum += fabs(term->weight) * m[term->node];
            m[at] = sum;
            break;
        }
        case OP_SCALE: case OP_MULTIPLY: m[at] = m[node->a] * m[node->b]; break;
        case OP_SQUARE: m[at] = m[node->a] * m[node->a]; break;
        case OP_DIVIDE: m[at] = m[node->a] / fabs(value(w, node->b, 0)) + y; break;
        case OP_EXP: m[at] = y * (1.0 + m[node->a]); break;
        case OP_SIN: case OP_COS: case OP_TANH: case OP_ATAN: case OP_ERF: m[at] = y + m[node->a]; break;
        case OP_SELECT: m[at] = value(w, node->a, 0) != 0.0 ? m[node->b] : m[node->c]; break;
        default: m[at] = y;
        }
    }
}

#define NEAR 1e-12

static int is_near(const kz_work *w, int32_t node) { return fabs(value(w, node, 0)) <= NEAR * (1.0 + w->size[node]); }

/* ---------------------------------------------------------------------------------------------- zeros */

#define DEEPEST 48

static double horner(const double *p, int degree, double u) {
    double y = p[degree];
    for (int k = degree - 1; k >= 0; k--) y = y * u + p[k];
    return y;
}

static double horner_slope(const double *p, int degree, double u) {
    double y = degree * p[degree];
    for (int k = degree - 1; k >= 1; k--) y = y * u + k * p[k];
    return degree ? y : 0.0;
}

/* Bernstein coefficients on [0, 1] from those of powers. */
static void bernstein(const double *p, int degree, double *b) {
    double binomial = 1.0;
    for (int k = 0; k <= degree; k++) {
        b[k] = p[k] / binomial;
        binomial = binomial * (degree - k) / (k + 1);
    }
    for (int j = 1; j <= degree; j++)
        for (int i = degree; i >= j; i--) b[i] += b[i - 1];
}

static int variations(const double *b, int degree) {
    int count = 0;
    double last = 0.0;
    for (int i = 0; i <= degree; i++) {
        if (b[i] == 0.0) continue;
        if (last != 0.0 && (b[i] > 0) != (last > 0)) count++;
        last = b[i];
    }
    return count;
}

/* The one zero in [low, high], where the values at the ends differ in sign: Newton within its bracket. */
static double bracketed(const double *p, int degree, double low, double high) {
    double at_low = horner(p, degree, low), at_high = horner(p, degree, high);
    if (at_low == 0.0) return low;
    if (at_high == 0.0) return high;
    if ((at_low > 0) == (at_high > 0)) return fabs(at_low) < fabs(at_high) ? low : high; /* decided by rounding */
    double u = low + (high - low) * (at_low / (at_low - at_high));
    for (int i = 0; i < 100; i++) {
        double y = p[degree], slope = 0.0;
        for (int k = degree - 1; k >= 0; k--) { slope = slope * u + y; y = y * u + p[k]; }
        if (y == 0.0) return u;
        if ((y > 0) == (at_low > 0)) low = u; else high = u;
        double next = slope != 0.0 ? u - y / slope : low - 1.0;
        if (!(next >= low && next <= high)) next = 0.5 * (low + high);
        if (fabs(next - u) <= 1e-16 + 2e-16 * fabs(u)) return next;
        u = next;
    }
    return u;
}

/* Zeros of p on (0, 1] from the left, at most `most`; touches (double zeros to rounding) are marked in `touch`. */
static int zeros(const double *p, int degree, double *found, int *touch, int most) {
    double sum = 0.0, slopes = 0.0;
    for (int k = 2; k <= degree; k++) { sum += fabs(p[k]); slopes += NUMBER[k] * fabs(p[k]); }
    if (fabs(p[0]) > fabs(p[1]) + sum) return 0;
    if (fabs(p[1]) > slopes && p[0] != 0.0 && most > 0) { /* monotonic: one zero at most */
        double end = horner(p, degree, 1.0);
        if (end != 0.0 && (end > 0) == (p[0] > 0)) return 0;
        found[0] = bracketed(p, degree, 0.0, 1.0);
        touch[0] = 0;
        return 1;
    }
    double stack[DEEPEST + 2][MOST_ORDER + 1], low[DEEPEST + 2], high[DEEPEST + 2];
    int depth[DEEPEST + 2], top = 0, count = 0;
    bernstein(p, degree, stack[0]);
    low[0] = 0.0; high[0] = 1.0; depth[0] = 0;
    while (top >= 0 && count < most) {
        double *b = stack[top];
        int changes = variations(b, degree);
        if (changes == 0) { top--; continue; }
        if (changes == 1) {
            found[count] = bracketed(p, degree, low[top], high[top]);
            touch[count++] = 0;
            top--;
            continue;
        }
        if (depth[top] >= DEEPEST) {
            found[count] = 0.5 * (low[top] + high[top]);
            touch[count++] = 1;
            top--;
            continue;
        }
        /* Split in the middle: the right half stays here, the left one is put on top. */
        double middle = 0.5 * (low[top] + high[top]);
        double *left = stack[top + 1];
        for (int j = 0; j <= degree; j++) {
            left[j] = b[0];
            for (int i = 0; i < degree - j; i++) b[i] = 0.5 * (b[i] + b[i + 1]);
        }
        depth[top + 1] = ++depth[top];
        low[top + 1] = low[top]; high[top + 1] = middle;
        low[top] = middle;
        top++;
    }
    return count;
}

/* ---------------------------------------------------------------------------------------------- runs */

/* One run, in the order of the fields that Python fills in. Arrays may be NULL where nothing is asked for. */
typedef struct {
    double t, t_low, t1, tolerance, contact_speed, log_determinant;
    double fastest; /* of the impacts so far: the speed towards the wall */
    double *x, *V, *runtime;
    const double *grid;
    double *grid_x, *grid_V, *grid_rates, *end_rates;
    double *event_times, *event_states; /* (room), (room, 2, n): before and after */
    int32_t *event_marks;               /* (room, 3): kind, index, direction */
    const int32_t *wrt;
    double *side; /* (observed): last definite sign of observed surfaces, 0 where it is not known; kept between calls */
    const int32_t *next_regime; /* (tapes, switches): the tape with that switch stuck, or no longer stuck; -1: none yet */
    /* Measured signals are polynomials between knots. After t1 come `knot_count` stretches more: number k ends at
     * knots[k] and has the run-time values coefficients[k] (signals) from `first_coefficient` on. */
    const double *knots, *coefficients;
    int64_t knot_count, knot_done;
    int64_t grid_count, grid_done, event_room, event_count, steps, max_steps, handled, max_events;
    int32_t first_coefficient, signals;
    int32_t columns, regime, status, ending_kind, ending_index, max_at_once, fresh; /* fresh: modes are not known */
    int32_t pending; /* the event of ending_kind and ending_index is reached, and not decided yet */
    int32_t lenient; /* of the next step alone: how surfaces that are zero at its start are passed, see `divided` */
} kz_run;

/* Thresholds of a surface that is zero at the start of a step: as always; relative to the terms of the rates, and up to the
 * third derivative; none: the surface counts as a few roundings away. */
enum { STRICT, FINE, SHIFTED, TOUCHED };

typedef struct {
    const kz_tape *const *tapes;
    int32_t tape_count;
    kz_work *works; /* opened when a regime is first entered */
    kz_run *run;
    int order;
    double *before, *after, *gradient, *matrix, *state, *start_V, *moved, *kept_modes; /* scratch */
    double *side; /* those of the run, or scratch */
    double last_event, last_flip;
    int32_t at_once;
    unsigned char skip[MOST_SURFACES]; /* switches at an instant: 1 leaves its surface, 2 is crossed with another */
} kz_trip;

static kz_work *work_of(kz_trip *trip, int32_t regime) {
    kz_work *w = trip->works + regime;
    if (!w->tape && !opened(w, trip->tapes[regime], trip->order, trip->run->columns, trip->run->wrt)) {
        closed(w);
        return NULL;
    }
    return w;
}

static double largest(const double *x, int32_t n) {
    double most = 0.0;
    for (int32_t i = 0; i < n; i++)
        if (!(fabs(x[i]) <= most)) most = fabs(x[i]);
    return most;
}

/* Largest last and last but one coefficients, each over the size of what it belongs to (1 at least). */
typedef struct {
    double last, before;
} kz_tail;

/* rows: coefficient k of item i, entry j at rows[i * stride + k * gap + j] */
static void add_tail(kz_tail *tail, const kz_work *w, const double *rows, int64_t stride, int64_t gap, int32_t count, int32_t width) {
    double scale = 1.0, last = 0.0, before = 0.0;
    for (int32_t i = 0; i < count; i++)
        for (int32_t j = 0; j < width; j++) {
            const double *c = rows + i * stride + j;
            if (fabs(c[0]) > scale) scale = fabs(c[0]);
            if (!(fabs(c[w->order * gap]) <= last)) last = fabs(c[w->order * gap]);
            if (!(fabs(c[(w->order - 1) * gap]) <= before)) before = fabs(c[(w->order - 1) * gap]);
        }
    if (!(last / scale <= tail->last)) tail->last = last / scale;
    if (!(before / scale <= tail->before)) tail->before = before / scale;
}

/* Orders above the one of Jorba and Zou, which is best where the work per step grows with its square: here most of it
 * grows with the order itself (measured: 10 % less time for a pendulum, none for other models; 5 is slower again). */
#define EXTRA_ORDER 3

/* Shorten a step that would pass over what comes after the tail of a term, where the coefficients vanish. The argument of
 * the term changes by a quarter of itself, or 1/4, at most: its terms of order k fall as the power k of the step. */
static double limited(const kz_work *w, double h) {
    for (int32_t i = 0; i < w->tape->limits; i++) {
        const double *c = series(w, w->tape->limit[i]);
        double most = fmax(0.25, 0.25 * fabs(c[0]));
        for (int tries = 0; tries < 100; tries++) {
            double change = 0.0, slope = 0.0;
            for (int k = w->order; k >= 1; k--) {
                change = (change + fabs(c[k])) * h;
                slope = (slope + k * fabs(c[k])) * h;
            }
            if (change <= 1.1 * most) break;
            /* Newton's method for log(change) by log(h), which is convex: it comes from above. A change that is not finite gives
             * no direction. */
            h *= slope < INFINITY ? pow(most / change, change / slope) : 0.1;
        }
    }
    return h;
}

/* Shorten a step to what coefficients of lower orders allow. A series may have gaps: that of x'' = -x^7 from x = 0 has the orders
 * 0, 1, 8, 9, 16 and 17, and near x = 0 the others are small; the last two then allow steps far too long. In a step exp(2) / 1.5
 * times as long no term may exceed the states; those of half the order or less belong to polynomials, as of free flight. */
static double within_lower_orders(const kz_work *w, double h) {
    const double *first = series(w, w->tape->constants);
    const int32_t lowest = w->order / 2 + 1;
    double scale = 1.0, longer = h * exp(2.0) / 1.5, power = pow(longer, lowest);
    for (int32_t i = 0; i < w->tape->states; i++) scale = fmax(scale, fabs(first[(int64_t)i * w->span]));
    for (int32_t k = lowest; k < w->order - 1; k++, power *= longer) {
        double most = 0.0;
        for (int32_t i = 0; i < w->tape->states; i++) most = fmax(most, fabs(first[(int64_t)i * w->span + k]));
        if (most > 0.0 && !(most * power <= scale)) {
            longer = pow(scale / most, 1.0 / k);
            h = longer * 1.5 * exp(-2.0);
            power = pow(longer, k);
        }
    }
    return h;
}

/* Step size from the last two coefficients (Jorba and Zou, 2005) of states, tangents and watched functions. */
static double step_size(const kz_work *w) {
    const kz_tape *tape = w->tape;
    kz_tail tail = {0.0, 0.0};
    add_tail(&tail, w, series(w, tape->constants), w->span, 1, tape->states, 1);
    if (w->T) add_tail(&tail, w, tangent(w, tape->constants, 0), (int64_t)(w->order + 1) * w->width, w->width, tape->states, w->width);
    const int32_t *lists[] = {tape->function, tape->surface, tape->balance, tape->edge, tape->observe};
    const int32_t counts[] = {tape->switches, tape->walls, tape->balances, tape->edges, tape->observed};
    for (int l = 0; l < 5; l++)
        for (int32_t i = 0; i < counts[l]; i++) add_tail(&tail, w, series(w, lists[l][i]), w->span, 1, 1, 1);
    /* The margin of a term that has just been entered, as a root, is tiny, and so are the states' changes by it: its own size
     * keeps the step within the convergence of its series. */
    for (int32_t i = 0; i < tape->edges; i++) {
        const double *c = series(w, tape->edge[i]);
        if (!(c[0] > 0.0 && c[1] > 0.0)) continue;
        tail.last = fmax(tail.last, fabs(c[w->order]) / c[0]);
        tail.before = fmax(tail.before, fabs(c[w->order - 1]) / c[0]);
    }
    if (isnan(tail.last) || isnan(tail.before)) return NAN;
    double least = w->order - EXTRA_ORDER, reach = fmax(log(tail.last) / w->order, log(tail.before) / (w->order - 1));
    return within_lower_orders(w, exp(-reach - (2.0 + 0.7 / (least - 1.0)) * least / w->order));
}

/* A watched function of the present regime: what its fall through zero means, and its coefficients on the step. */
typedef struct {
    int32_t kind, index, node;
    double sign;
} kz_watch;

static int watches(const kz_trip *trip, const kz_work *w, kz_watch *list) {
    const kz_tape *tape = w->tape;
    const double *modes = trip->run->runtime + tape->first_mode;
    int count = 0;
    for (int32_t i = 0; i < tape->switches; i++)
        if (!tape->held[i] && modes[i] != 0.0) list[count++] = (kz_watch){CROSS, i, tape->function[i], modes[i] > 0 ? 1.0 : -1.0};
    for (int32_t j = 0; j < tape->walls; j++)
        if (!tape->held[tape->switches + j]) list[count++] = (kz_watch){IMPACT, j, tape->surface[j], 1.0};
    for (int32_t i = 0; i < tape->balances; i++)
        list[count++] = (kz_watch){tape->balance_kind[i] ? DETACH : RELEASE, tape->balance_index[i], tape->balance[i], 1.0};
    for (int32_t k = 0; k < tape->edges; k++) list[count++] = (kz_watch){EDGE, k, tape->edge[k], 1.0};
    return count;
}

/* Coefficients of a watched function in u = time / h. */
static void watched_series(const kz_work *w, const kz_watch *watch, double h, double *p) {
    const double *c = series(w, watch->node);
    double power = 1.0;
    for (int k = 0; k <= w->order; k++) {
        double v = watch->kind == RELEASE ? (k == 0 ? 1.0 : 0.0) - dot(c, c + w->stride + w->order - k, k + 1) : watch->sign * c[k];
        p[k] = v * power;
        power *= h;
    }
}

/* Largest natural size of the rates: below 1e-10 of it a derivative of a surface is not told from zero. */
static double size_of_rates(const kz_work *w) {
    double most = 0.0;
    for (int32_t i = 0; i < w->tape->states; i++) most = fmax(most, w->size[w->tape->rate[i]]);
    return most;
}

/* Treat a surface as this far away, and look for its next zero from there. */
static int shifted(double *p, double distance) {
    p[0] = fmax(p[0], distance + 1e-100);
    return 0;
}

/* Take out a zero at the start of the step. Returns how often, or -1 where the function falls at once, -2 where its
 * sign is not decided, -3 where it vanishes all the time, -4 where a
 * continuous switch is left to its other side without a rate, as when what held it is released. rates: the largest rate of the states.
 * lenient: STRICT decides plain cases only. FINE is for what STRICT did not decide, and knows smaller rates and one more
 * derivative: a wall is left at third order where the contact force vanishes. SHIFTED never stops: surfaces are a few
 * roundings away, for TOUCHED as far as the event logic calls a surface touched. */
static int divided(kz_work *w, const kz_watch *watch, double h, double *p, double rates, int *measured, int lenient) {
    double rest = 0.0;
    if (watch->kind == EDGE && p[0] > 0 && lenient < SHIFTED) return 0; /* scaled to be tiny: only its sign counts */
    /* Beyond the end of a series, which need not be that of the term: the event logic has let the motion pass. */
    if (watch->kind == EDGE && lenient < SHIFTED) return lenient ? -3 : -2;
    for (int k = 1; k <= w->order; k++) rest += fabs(p[k]);
    if (p[0] > 1e-6 * (1.0 + rest)) return 0;
    if (!*measured) { measure_sizes(w); *measured = 1; }
    double size = watch->kind == RELEASE ? 1.0 : w->size[watch->node];
    if (lenient >= SHIFTED) return shifted(p, lenient == TOUCHED ? NEAR * (1.0 + size) : 1e-15 * size);
    if (fabs(p[0]) > NEAR * (1.0 + size)) return p[0] > 0 ? 0 : lenient ? -1 : -2;
    if (lenient && p[0] > 4e-15 * size) return 0; /* the top of a flight of 1e-12 is above its wall */
    double slope = p[1] / h, bend = p[2] / (h * h), still = 1e-10 * (lenient ? size_of_rates(w) : 1.0 + rates);
    /* A value above zero, however small, needs nothing: a motion of nanometres is close to its walls all the time. */
    if (p[0] > 0 && fabs(slope) > still) return 0;
    int taken = slope > still ? 1 : slope < -still ? -1 : bend > still ? 2 : 0;
    if (lenient && !taken) {
        double turn = p[3] / (h * h * h);
        taken = bend < -still || turn < -still ? -1 : turn > still ? 3 : 0;
    }
    if (taken < 0) return taken;
    for (int k = 0; taken && k <= w->order - taken; k++) p[k] = p[k + taken];
    if (taken) return taken;
    if (lenient) return rest <= NEAR * (1.0 + size) ? -3 : -1;
    if (watch->kind == CROSS && w->tape->flags[watch->index] == CONTINUOUS && bend < -still) return -4;
    /* Held surfaces may hold another one too: x - y while x and y are at rest. It is asked again when one is released. */
    return watch->kind == CROSS && w->tape->balances && rest <= NEAR * (1.0 + size) ? -3 : -2;
}

static void interpolate(const kz_work *w, double tau, double *x, double *V, double *rates) {
    const kz_tape *tape = w->tape;
    for (int32_t i = 0; i < tape->states; i++) {
        const double *c = series(w, tape->constants + i);
        if (x) x[i] = horner(c, w->order, tau);
        if (rates) rates[i] = horner_slope(c, w->order, tau);
        if (V && w->T) {
            const double *C = tangent(w, tape->constants + i, 0);
            double *row = V + (int64_t)i * w->columns;
            for (int32_t j = 0; j < w->columns; j++) row[j] = C[(int64_t)w->order * w->width + j];
            for (int k = w->order - 1; k >= 0; k--)
                for (int32_t j = 0; j < w->columns; j++) row[j] = row[j] * tau + C[(int64_t)k * w->width + j];
        }
    }
}

/* Room for one more event? Notes it. */
static int note(kz_trip *trip, double t, int kind, int32_t index, double direction, const double *before, const double *after) {
    kz_run *run = trip->run;
    int32_t n = trip->tapes[0]->states;
    if (run->event_count >= run->event_room) return 0;
    int64_t at = run->event_count++;
    run->event_times[at] = t;
    run->event_marks[3 * at] = kind;
    run->event_marks[3 * at + 1] = index;
    run->event_marks[3 * at + 2] = direction > 0 ? 1 : direction < 0 ? -1 : 0;
    memcpy(run->event_states + 2 * n * at, before, (size_t)n * sizeof(double));
    memcpy(run->event_states + 2 * n * at + n, after, (size_t)n * sizeof(double));
    return 1;
}

/* ---------------------------------------------------------------------------------------------- instants */

#define CLEARLY 1e-6
#define FAR_FROM_CONTACT 100.0

/* Is a surface other than the one in question, and than switches to skip, within rounding of zero? */
static int others_near(const kz_work *w, const double *modes, int kind, int32_t index, const unsigned char *skip) {
    const kz_tape *tape = w->tape;
    for (int32_t i = 0; i < tape->switches; i++)
        if (!(kind == CROSS && i == index) && !skip[i] && !tape->held[i] && modes[i] != 0.0 && is_near(w, tape->function[i]))
            return 1;
    for (int32_t j = 0; j < tape->walls; j++)
        if (!(kind == IMPACT && j == index) && !tape->held[tape->switches + j] && is_near(w, tape->surface[j])) return 1;
    for (int32_t i = 0; i < tape->balances; i++) {
        if (kind == (tape->balance_kind[i] ? DETACH : RELEASE) && tape->balance_index[i] == index) continue;
        double z = value(w, tape->balance[i], 0), margin = tape->balance_kind[i] ? z : 1.0 - fabs(z);
        if (!(margin > CLEARLY)) return 1;
    }
    return 0;
}

static double largest_rate(const kz_work *w) {
    double most = 0.0;
    for (int32_t i = 0; i < w->tape->states; i++) {
        double f = fabs(value(w, w->tape->rate[i], 0));
        if (!(f <= most)) most = f;
    }
    return most;
}

static void copy_rates(const kz_work *w, double *f) {
    for (int32_t i = 0; i < w->tape->states; i++) f[i] = value(w, w->tape->rate[i], 0);
}

/* Is a function zero along the whole series, and not only with its value and rate as max(x, 0)**2 where x crosses 0? */
static int is_zero_on(const kz_trip *trip, kz_work *w, int32_t node, double t, const double *x, const double *V, int identity) {
    evaluate(w, trip->run->runtime, trip->run->wrt, t, x, V, identity, w->order);
    for (int k = 0; k <= w->order; k++)
        if (value(w, node, k) != 0.0) return 0;
    return 1;
}

/* Read the modes of nested switches again, inner ones first. Evaluates the tape anew where a mode changes.
 * all: read every mode (after a reset). Returns 0 where a sign is not decided. */
static int read_modes(kz_trip *trip, kz_work *w, double t, const double *x, const double *V, int identity, int32_t keep, int all) {
    const kz_tape *tape = w->tape;
    double *modes = trip->run->runtime + tape->first_mode;
    for (int32_t i = 0; i < tape->switches; i++) {
        if (i == keep || tape->held[i] || (!all && trip->skip[i]) || !(all || (tape->flags[i] & NESTED))) continue;
        double s = value(w, tape->function[i], 0), mode;
        measure_sizes(w);
        if (!is_near(w, tape->function[i])) mode = s > 0 ? 1.0 : -1.0;
        else if (s == 0.0 && modes[i] == 0.0 && is_zero_on(trip, w, tape->function[i], t, x, V, identity)) mode = 0.0;
        else if ((tape->flags[i] & CONTINUOUS) && !all && fabs(value(w, tape->function[i], 1)) > CLEARLY * (1.0 + largest_rate(w)))
            mode = value(w, tape->function[i], 1) > 0 ? 1.0 : -1.0;
        else return 0;
        if (mode != modes[i]) {
            modes[i] = mode;
            evaluate(w, trip->run->runtime, trip->run->wrt, t, x, V, identity, 1);
        }
    }
    return 1;
}

/* V += a (outer) b */
static void add_outer(double *V, const double *a, const double *b, double factor, int32_t n, int32_t columns) {
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < columns; j++) V[(int64_t)i * columns + j] += factor * a[i] * b[j];
}

enum { DECIDED = -1 };

#define MOST_STUCK 8
#define REGULAR 1e-10

/* Do sliding surfaces have one answer only? True when all principal minors of the gain are positive. With ones on the
 * diagonal minors have no units; surfaces that depend on each other have one of zero. */
static int has_positive_minors(const double *gain, int size) {
    double root[MOST_STUCK];
    for (int i = 0; i < size; i++) {
        if (!(gain[i * size + i] > 0)) return 0;
        root[i] = sqrt(gain[i * size + i]);
    }
    for (int chosen = 1; chosen < 1 << size; chosen++) {
        double a[MOST_STUCK * MOST_STUCK], product = 1.0;
        int index[MOST_STUCK], count = 0;
        for (int i = 0; i < size; i++)
            if (chosen & 1 << i) index[count++] = i;
        for (int i = 0; i < count; i++)
            for (int j = 0; j < count; j++) a[i * count + j] = gain[index[i] * size + index[j]] / (root[index[i]] * root[index[j]]);
        for (int k = 0; k < count; k++) {
            int pivot = k;
            for (int i = k + 1; i < count; i++)
                if (fabs(a[i * count + k]) > fabs(a[pivot * count + k])) pivot = i;
            if (a[pivot * count + k] == 0.0) return 0;
            if (pivot != k) {
                product = -product;
                for (int j = 0; j < count; j++) {
                    double kept = a[k * count + j];
                    a[k * count + j] = a[pivot * count + j];
                    a[pivot * count + j] = kept;
                }
            }
            product *= a[k * count + k];
            for (int i = k + 1; i < count; i++) {
                double f = a[i * count + k] / a[k * count + k];
                for (int j = k; j < count; j++) a[i * count + j] -= f * a[k * count + j];
            }
        }
        if (!(product > REGULAR)) return 0;
    }
    return 1;
}

/* Switches on their surfaces at the instant of a crossing: continuous ones may cross together with one that jumps, as
 * they do not change the rates. Returns 0 where there is more to decide. */
static int find_companions(kz_trip *trip, const kz_work *w, int32_t *primary) {
    const kz_tape *tape = w->tape;
    const double *modes = trip->run->runtime + tape->first_mode;
    double clearly = CLEARLY * (1.0 + largest_rate(w));
    for (int32_t j = 0; j < tape->switches; j++) {
        if (j == *primary || tape->held[j] || modes[j] == 0.0 || !is_near(w, tape->function[j])) continue;
        double away = modes[j] * value(w, tape->function[j], 1);
        if ((tape->flags[j] & DELICATE) || !(fabs(away) > clearly)) return 0;
        trip->skip[j] = away > 0 ? 1 : 2;
        if (away < 0 && !(tape->flags[j] & CONTINUOUS)) {
            if (!(tape->flags[*primary] & CONTINUOUS)) return 0;
            trip->skip[*primary] = 2;
            trip->skip[j] = 0;
            *primary = j;
        }
    }
    return 1;
}

/* Gain of the stuck switches of a regime: -(s_i'(m_j = 1) - s_i'(m_j = -1)) / 2 in free motion, m_j of the others 1.
 * Returns 0 where the answer may not be unique, or where modes multiply each other. */
static int is_unique(kz_trip *trip, double t, const double *x, const int32_t *stuck, int count) {
    kz_run *run = trip->run;
    kz_work *w = work_of(trip, 0);
    if (!w || count > MOST_STUCK) return 0;
    const kz_tape *tape = w->tape;
    double *modes = run->runtime + tape->first_mode, kept[MOST_STUCK], gain[MOST_STUCK * MOST_STUCK], above[MOST_STUCK];
    int right = 1;
    for (int k = 0; k < count; k++) { kept[k] = modes[stuck[k]]; modes[stuck[k]] = 1.0; }
    evaluate(w, run->runtime, run->wrt, t, x, trip->moved, 0, 1);
    for (int i = 0; i < count; i++) above[i] = value(w, tape->function[stuck[i]], 1);
    for (int j = 0; j < count; j++) {
        modes[stuck[j]] = -1.0;
        evaluate(w, run->runtime, run->wrt, t, x, trip->moved, 0, 1);
        for (int i = 0; i < count; i++) gain[i * count + j] = -0.5 * (above[i] - value(w, tape->function[stuck[i]], 1));
        modes[stuck[j]] = 1.0;
    }
    /* With all modes reversed the rates must follow from the sum: no products of modes. */
    for (int k = 0; k < count; k++) modes[stuck[k]] = -1.0;
    evaluate(w, run->runtime, run->wrt, t, x, trip->moved, 0, 1);
    for (int i = 0; i < count; i++) {
        double sum = above[i], size = fabs(above[i]);
        for (int j = 0; j < count; j++) { sum += 2.0 * gain[i * count + j]; size += 2.0 * fabs(gain[i * count + j]); }
        if (!(fabs(sum - value(w, tape->function[stuck[i]], 1)) <= 1e-9 * (1e-300 + size))) right = 0;
    }
    for (int k = 0; k < count; k++) modes[stuck[k]] = kept[k];
    return right && has_positive_minors(gain, count);
}

/* Do the stuck surfaces of a regime still attract the motion from both sides, in the modes that an event has set? The
 * control of a surface that has become repelling may be within its limits, so that it does not show this. */
static int still_attract(kz_trip *trip, const kz_tape *tape, double t, const double *x) {
    int32_t stuck[MOST_STUCK];
    int count = 0, contacts = 0;
    for (int32_t k = 0; k < tape->balances; k++) {
        if (tape->balance_kind[k]) { contacts++; continue; }
        if (count == MOST_STUCK) return 0;
        stuck[count++] = tape->balance_index[k];
    }
    return !count || (!contacts && is_unique(trip, t, x, stuck, count));
}

/* Both sides lead to the surface of switch i: it sticks, beside those that do already. w: the regime before, in which
 * the modes beyond the surface are set; trip->before: the rates before it. */
static int decide_stick(kz_trip *trip, kz_work *w, double t, int32_t i, double m, double towards, double beyond, double s0) {
    const kz_tape *tape = w->tape;
    kz_run *run = trip->run;
    const int32_t n = tape->states, columns = run->columns;
    double *modes = run->runtime + tape->first_mode, *x = trip->state, *V = trip->moved;
    int32_t stuck[MOST_STUCK + 1];
    int count = 0;
    for (int32_t k = 0; k < tape->switches; k++) {
        /* A stuck switch that throws another one from side to side leaves no control determined. */
        if (k != i && !tape->held[k] && modes[k] != trip->kept_modes[k]) return GIVEN_BACK;
        if (k == i || tape->held[k]) {
            if (count == MOST_STUCK) return GIVEN_BACK;
            stuck[count++] = k;
        }
    }
    for (int32_t k = 0; k < tape->balances; k++)
        if (tape->balance_kind[k]) return GIVEN_BACK;
    copy_rates(w, trip->after);
    modes[i] = m;
    int32_t regime = run->next_regime[(int64_t)run->regime * tape->switches + i];
    if (regime < 0 || regime >= trip->tape_count) return NEED_REGIME;
    kz_work *held = work_of(trip, regime);
    if (!held) return MEMORY;
    /* E = -(f(+1) - f(-1)) / 2 and its rate s_x E, with the others held. */
    double gain = -0.5 * m * (towards - beyond), *direction = trip->start_V;
    if (!(gain > 0) || (count > 1 && !is_unique(trip, t, x, stuck, count))) return GIVEN_BACK;
    for (int32_t k = 0; k < n; k++) direction[k] = -0.5 * m * (trip->before[k] - trip->after[k]);
    memcpy(trip->after, x, (size_t)n * sizeof(double));
    for (int32_t k = 0; k < n; k++) x[k] -= direction[k] * (s0 / gain);
    evaluate(held, run->runtime, run->wrt, t, x, V, 0, 1);
    measure_sizes(held);
    if (others_near(held, modes, STICK, i, trip->skip)) return GIVEN_BACK;
    if (columns) {
        for (int32_t k = 0; k < n; k++) trip->before[k] = value(held, held->tape->rate[k], 0) - trip->before[k];
        add_outer(V, trip->before, trip->gradient, 1.0 / towards, n, columns);
        evaluate(held, run->runtime, run->wrt, t, x, V, 0, 0);
        memcpy(trip->gradient, tangent(held, held->tape->function[i], 0), (size_t)columns * sizeof(double));
        add_outer(V, direction, trip->gradient, -1.0 / gain, n, columns);
        run->log_determinant = -INFINITY;
    }
    run->regime = regime;
    note(trip, t, STICK, i, towards, trip->after, x);
    return DECIDED;
}

/* A switch is reached from its side m at the state trip->state with tangents trip->moved. */
static int decide_crossing(kz_trip *trip, kz_work *w, double t, int32_t i) {
    const kz_tape *tape = w->tape;
    kz_run *run = trip->run;
    const int32_t n = tape->states, columns = run->columns;
    double *modes = run->runtime + tape->first_mode, m = modes[i];
    double *x = trip->state, *V = trip->moved;
    if ((tape->flags[i] & DELICATE) || run->event_count + 1 > run->event_room) return GIVEN_BACK;
    int together = 0;
    double towards = value(w, tape->function[i], 1), speed = largest_rate(w), s0 = value(w, tape->function[i], 0);
    /* A function that may only touch its surface is left to the caller. */
    double moment = 1e-6 * (1.0 + largest(x, n)) / (1.0 + speed);
    if (!(m * towards < 0) || fabs(towards) <= run->contact_speed ||
        fabs(towards) * moment <= 1e4 * 1e-13 * (1.0 + w->size[tape->function[i]]))
        return GIVEN_BACK;
    copy_rates(w, trip->before);
    if (columns) memcpy(trip->gradient, tangent(w, tape->function[i], 0), (size_t)columns * sizeof(double));
    modes[i] = -m;
    for (int32_t j = 0; j < tape->switches; j++)
        if (trip->skip[j] == 2) { modes[j] = -modes[j]; together = 1; }
    evaluate(w, run->runtime, run->wrt, t, x, V, 0, 1);
    if (!read_modes(trip, w, t, x, V, 0, i, 0)) return GIVEN_BACK;
    for (int32_t j = 0; j < tape->switches; j++)
        if (trip->skip[j] && !(modes[j] * value(w, tape->function[j], 1) > CLEARLY * (1.0 + speed))) return GIVEN_BACK;
    double beyond = value(w, tape->function[i], 1);
    double small = fmin(fabs(towards), fabs(beyond)), large = fmax(fabs(towards), fabs(beyond));
    if (!(small > CLEARLY * large)) return GIVEN_BACK;
    measure_sizes(w);
    if (towards * beyond > 0) {
        /* A continuous switch changes neither the rates nor their jumps. */
        if (others_near(w, modes, CROSS, i, trip->skip) || !((tape->flags[i] & CONTINUOUS) || still_attract(trip, tape, t, x)))
            return GIVEN_BACK;
        copy_rates(w, trip->after);
        if (columns && !(tape->flags[i] & CONTINUOUS)) {
            for (int32_t k = 0; k < n; k++) trip->before[k] = trip->after[k] - trip->before[k];
            add_outer(V, trip->before, trip->gradient, 1.0 / towards, n, columns);
            run->log_determinant += log(fabs(beyond / towards));
        }
        if (!(tape->flags[i] & CONTINUOUS)) note(trip, t, CROSS, i, towards, x, x);
        return DECIDED;
    }
    return (tape->flags[i] & CONTINUOUS) || together ? GIVEN_BACK : decide_stick(trip, w, t, i, m, towards, beyond, s0);
}

/* The equivalent control of a stuck switch has reached its limit: the switch is left on the side of the control. */
static int decide_release(kz_trip *trip, kz_work *w, double t, int32_t i) {
    const kz_tape *tape = w->tape;
    kz_run *run = trip->run;
    double *modes = run->runtime + tape->first_mode, z = 0.0;
    if ((tape->flags[i] & DELICATE) || run->event_count + 1 > run->event_room) return GIVEN_BACK;
    for (int32_t k = 0; k < tape->balances; k++) {
        if (tape->balance_kind[k]) return GIVEN_BACK;
        if (tape->balance_index[k] == i) z = value(w, tape->balance[k], 0);
    }
    int32_t regime = run->next_regime[(int64_t)run->regime * tape->switches + i];
    if (regime < 0 || regime >= trip->tape_count) return NEED_REGIME;
    kz_work *left = work_of(trip, regime);
    if (!left) return MEMORY;
    double side = z < 0 ? 1.0 : -1.0;
    modes[i] = side;
    evaluate(left, run->runtime, run->wrt, t, trip->state, trip->moved, 0, 2);
    if (!read_modes(trip, left, t, trip->state, trip->moved, 0, i, 0)) return GIVEN_BACK;
    evaluate(left, run->runtime, run->wrt, t, trip->state, trip->moved, 0, 2);
    measure_sizes(left);
    double size = 1.0 + largest_rate(left);
    int32_t function = left->tape->function[i];
    if (others_near(left, modes, CROSS, i, trip->skip) || !(side * value(left, function, 2) > CLEARLY * size) ||
        fabs(value(left, function, 1)) > 1e-10 * size || !still_attract(trip, left->tape, t, trip->state))
        return GIVEN_BACK;
    run->regime = regime;
    note(trip, t, RELEASE, i, side, trip->state, trip->state);
    return DECIDED;
}

/* log|det| of a small matrix, which is destroyed. */
static double log_determinant(double *a, int32_t n) {
    double sum = 0.0;
    for (int32_t k = 0; k < n; k++) {
        int32_t pivot = k;
        for (int32_t i = k + 1; i < n; i++)
            if (fabs(a[(int64_t)i * n + k]) > fabs(a[(int64_t)pivot * n + k])) pivot = i;
        double p = a[(int64_t)pivot * n + k];
        if (p == 0.0) return -INFINITY;
        if (pivot != k)
            for (int32_t j = 0; j < n; j++) {
                double kept = a[(int64_t)k * n + j];
                a[(int64_t)k * n + j] = a[(int64_t)pivot * n + j];
                a[(int64_t)pivot * n + j] = kept;
            }
        sum += log(fabs(p));
        for (int32_t i = k + 1; i < n; i++) {
            double f = a[(int64_t)i * n + k] / p;
            for (int32_t j = k; j < n; j++) a[(int64_t)i * n + j] -= f * a[(int64_t)k * n + j];
        }
    }
    return sum;
}

/* A wall is struck in free motion: reset, modes read again, saltation
 * V+ = R_x V + R_p + (R_x f- + R_t - f+) (-(g_x V + g_p) / w-). */
static int decide_impact(kz_trip *trip, kz_work *w, double t, int32_t wall) {
    const kz_tape *tape = w->tape;
    kz_run *run = trip->run;
    const int32_t n = tape->states, columns = run->columns;
    double *modes = run->runtime + tape->first_mode, *x = trip->state, *V = trip->moved;
    if (run->event_count + 1 > run->event_room) return GIVEN_BACK;
    for (int32_t i = 0; i < tape->switches; i++)
        if (tape->flags[i] & DELICATE) return GIVEN_BACK;
    for (int32_t k = 0; k < tape->balances; k++)
        if (tape->balance_kind[k]) return GIVEN_BACK;
    if (columns) evaluate(w, run->runtime, run->wrt, t, x, V, 1, 1);
    double speed = value(w, tape->surface[wall], 1);
    if (-speed > run->fastest) run->fastest = -speed;
    if (!(speed < -FAR_FROM_CONTACT * run->contact_speed)) return GIVEN_BACK;
    evaluate_resets(w, run->runtime, run->wrt, t);
    const int32_t *reset = tape->reset + (int64_t)wall * n;
    double *jump = trip->matrix; /* n x columns: R_x, R_p; then the saltation */
    for (int32_t i = 0; i < n; i++) {
        trip->after[i] = value(w, reset[i], 0);
        trip->before[i] = value(w, reset[i], 1);
        if (columns) memcpy(jump + (int64_t)i * columns, tangent(w, reset[i], 0), (size_t)columns * sizeof(double));
    }
    if (columns) memcpy(trip->gradient, tangent(w, tape->surface[wall], 0), (size_t)columns * sizeof(double));
    evaluate(w, run->runtime, run->wrt, t, trip->after, V, 0, 1);
    if (!read_modes(trip, w, t, trip->after, V, 0, -1, 1)) return GIVEN_BACK;
    measure_sizes(w);
    /* What sticks goes on to stick where the reset does not move it off its surface; the rest is for the caller. */
    for (int32_t i = 0; i < tape->switches; i++)
        if (tape->held[i] && !is_near(w, tape->function[i])) return GIVEN_BACK;
    if (others_near(w, modes, IMPACT, wall, trip->skip) || !is_near(w, tape->surface[wall]) ||
        !(value(w, tape->surface[wall], 1) > FAR_FROM_CONTACT * run->contact_speed) ||
        !still_attract(trip, tape, t, trip->after))
        return GIVEN_BACK;
    if (columns) {
        for (int32_t i = 0; i < n; i++) {
            double lag = trip->before[i] - value(w, tape->rate[i], 0);
            for (int32_t j = 0; j < columns; j++) jump[(int64_t)i * columns + j] -= lag * trip->gradient[j] / speed;
        }
        double *result = trip->start_V;
        for (int32_t i = 0; i < n; i++)
            for (int32_t j = 0; j < columns; j++) {
                double sum = j >= n ? jump[(int64_t)i * columns + j] : 0.0;
                for (int32_t k = 0; k < n; k++) sum += jump[(int64_t)i * columns + k] * V[(int64_t)k * columns + j];
                result[(int64_t)i * columns + j] = sum;
            }
        memcpy(V, result, (size_t)n * columns * sizeof(double));
        for (int32_t i = 0; i < n; i++)
            for (int32_t j = 0; j < n; j++) result[(int64_t)i * n + j] = jump[(int64_t)i * columns + j];
        run->log_determinant += log_determinant(result, n);
    }
    note(trip, t, IMPACT, wall, -1.0, x, trip->after);
    memcpy(x, trip->after, (size_t)n * sizeof(double));
    return DECIDED;
}

/* ---------------------------------------------------------------------------------------------- the loop */

static void sample_grid(kz_trip *trip, kz_work *w, double until, int inclusive) {
    /* Samples of the present step, before `until` (time since its start). */
    kz_run *run = trip->run;
    const int32_t n = w->tape->states;
    while (run->grid_done < run->grid_count) {
        double tau = (run->grid[run->grid_done] - run->t) - run->t_low;
        if (inclusive ? tau > until : tau >= until) return;
        int64_t at = run->grid_done++;
        if (tau < 0) tau = 0;
        interpolate(w, tau, run->grid_x + at * n, run->grid_V ? run->grid_V + at * n * run->columns : NULL,
                    run->grid_rates ? run->grid_rates + at * n : NULL);
    }
}

static void add_time(kz_run *run, double tau) {
    double y = tau + run->t_low, sum = run->t + y;
    run->t_low = y - (sum - run->t);
    run->t = sum;
}

/* Crossings of observed surfaces up to u = last of the step h. Returns 0 when there is no room. */
static int note_crossings(kz_trip *trip, kz_work *w, double h, double last, int *measured) {
    const kz_tape *tape = w->tape;
    double p[MOST_ORDER + 1], found[MOST_ORDER];
    int touch[MOST_ORDER];
    for (int32_t o = 0; o < tape->observed; o++) {
        const double *c = series(w, tape->observe[o]);
        double power = 1.0, rest = 0.0;
        for (int k = 0; k <= w->order; k++) { p[k] = c[k] * power; power *= h; if (k) rest += fabs(p[k]); }
        int degree = w->order;
        if (fabs(p[0]) <= 1e-6 * (1.0 + rest)) {
            if (!*measured) { measure_sizes(w); *measured = 1; }
            if (is_near(w, tape->observe[o])) {
                /* On the surface now: a crossing that the step before did not see, or the one it has noted. A start on
                 * the surface is a crossing too: the run before, if there was one, may have ended a rounding short. */
                double side = p[1] > 0 ? 1.0 : p[1] < 0 ? -1.0 : 0.0;
                if (side != 0.0 && side != trip->side[o]) {
                    interpolate(w, 0.0, trip->after, NULL, NULL);
                    if (!note(trip, trip->run->t, CROSSING, o, side, trip->after, trip->after)) return 0;
                }
                if (side != 0.0) trip->side[o] = side;
                for (int k = 0; k < degree; k++) p[k] = p[k + 1];
                degree--;
            }
        }
        int count = zeros(p, degree, found, touch, MOST_ORDER);
        for (int i = 0; i < count && found[i] <= last; i++) {
            if (touch[i]) continue;
            double tau = found[i] * h, slope = horner_slope(c, w->order, tau);
            interpolate(w, tau, trip->after, NULL, NULL);
            if (!note(trip, trip->run->t + tau, CROSSING, o, slope, trip->after, trip->after)) return 0;
            trip->side[o] = slope > 0 ? 1.0 : -1.0;
        }
        double end = horner(c, w->order, last * h);
        if (fabs(end) > 1e-9 * (1.0 + rest)) trip->side[o] = end > 0 ? 1.0 : -1.0;
    }
    return 1;
}

#define GRAZING 1e-9

/* Nearest approaches to a wall that was not struck: grazes where they are closer than GRAZING of the terms of the distance
 * and of its change in the step, whatever the units. */
static int note_approach(kz_trip *trip, kz_work *w, const kz_watch *watch, const double *p, double h, double last, int *measured) {
    double slopes[MOST_ORDER + 1], found[MOST_ORDER], rest = 0.0, change = 0.0;
    int touch[MOST_ORDER];
    for (int k = 1; k <= w->order; k++) { rest += fabs(p[k]); slopes[k - 1] = NUMBER[k] * p[k]; change += fabs(slopes[k - 1]); }
    if (2.0 * fabs(slopes[0]) > change) return 1; /* monotonic */
    if (!*measured) { measure_sizes(w); *measured = 1; }
    double scale = w->size[watch->node] + rest, allowed = GRAZING * scale;
    if (p[0] - rest > allowed || p[0] <= NEAR * scale) return 1; /* too far, or just left */
    double lowest[MOST_ORDER + 1];
    int close = 0;
    bernstein(p, w->order, lowest);
    for (int k = 0; k <= w->order; k++) close |= !(lowest[k] > allowed);
    if (!close) return 1;
    int count = zeros(slopes, w->order - 1, found, touch, MOST_ORDER);
    for (int i = 0; i < count && found[i] <= last; i++) {
        double distance = horner(p, w->order, found[i]);
        if (touch[i] || distance > allowed || horner_slope(slopes, w->order - 1, found[i]) <= 0) continue;
        double t = trip->run->t + found[i] * h;
        if (t - trip->last_event <= 1e-9 * (1.0 + fabs(t))) continue;
        interpolate(w, found[i] * h, trip->after, NULL, NULL);
        if (!note(trip, t, GRAZE, watch->index, 0.0, trip->after, trip->after)) return 0;
    }
    return 1;
}

static int is_finite_row(const double *x, int64_t count) {
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) sum += x[i] * 0.0;
    return sum == 0.0;
}

static int has_finite_states(const kz_work *w) {
    for (int32_t i = 0; i < w->tape->states; i++)
        if (!is_finite_row(series(w, w->tape->constants + i), w->order + 1)) return 0;
    return 1;
}

/* One step, up to an event. Returns DECIDED to go on, or a status. */
static int step(kz_trip *trip) {
    kz_run *run = trip->run;
    kz_work *w = work_of(trip, run->regime);
    if (!w) return MEMORY;
    const kz_tape *tape = w->tape;
    const int32_t n = tape->states, columns = run->columns;
    kz_watch list[4 * MOST_SURFACES];
    double p[MOST_ORDER + 1], found[3];
    int touch[3], measured = 0;
    evaluate(w, run->runtime, run->wrt, run->t + run->t_low, run->x, run->V, 0, w->order);
    double h = step_size(w), left = (run->t1 - run->t) - run->t_low;
    if (!(h > 0.0) || !has_finite_states(w)) return NOT_FINITE;
    h = limited(w, h < left ? h : left);
    int ends_run = h >= left;
    if (ends_run) h = left;
    if (run->t + h == run->t && !ends_run) return NOT_FINITE;
    double rates = largest_rate(w), first = 2.0;
    int chosen = -1, doubtful = 0, count = watches(trip, w, list), pending = run->pending, lenient = run->lenient;
    run->pending = run->lenient = 0;
    for (int i = 0; pending && i < count; i++)
        if (list[i].kind == run->ending_kind && list[i].index == run->ending_index) { first = 0.0; chosen = i; }
    /* Nothing comes before an event that is pending: the motion has been followed up to it. */
    for (int i = chosen < 0 ? 0 : count; i < count; i++) {
        watched_series(w, list + i, h, p);
        int asked = list[i].kind == run->ending_kind && list[i].index == run->ending_index;
        int taken = divided(w, list + i, h, p, rates, &measured, lenient == TOUCHED && !asked ? SHIFTED : lenient);
        if (taken == -2) return STALLED;
        if (taken == -3) continue;
        if (taken == -4) {
            /* No rates change with its mode: take the other one, once, and begin the step again. */
            double *mode = run->runtime + tape->first_mode + list[i].index;
            if (trip->last_flip == run->t + run->t_low) return STALLED;
            trip->last_flip = run->t + run->t_low;
            *mode = -*mode;
            return DECIDED;
        }
        if (taken == -1) { found[0] = 0.0; touch[0] = lenient != STRICT; }
        else {
            double reach = first < 1.0 ? first : 1.0, power = 1.0; /* what comes after another event does not matter */
            if (reach < 1.0)
                for (int k = 1; k <= w->order - taken; k++) { power *= reach; p[k] *= power; }
            int zero_count = zeros(p, w->order - taken, found, touch, 3);
            for (int k = 0; k < zero_count; k++) found[k] *= reach;
            /* Two zeros with no more than rounding between them: the surface is touched, not crossed. */
            if (zero_count > 1 && !touch[0] && !touch[1] && list[i].kind == CROSS && !taken) {
                double depth = -horner(p, w->order, 0.5 * (found[0] + found[1]) / reach);
                if (!measured) { measure_sizes(w); measured = 1; }
                if (depth <= NEAR * (1.0 + w->size[list[i].node])) {
                    found[0] = found[2]; touch[0] = touch[2];
                    zero_count -= 2;
                }
            }
            if (!zero_count) continue;
        }
        if (found[0] < first) { first = found[0]; chosen = i; doubtful = touch[0]; }
    }
    double last = chosen >= 0 ? first : 1.0;
    int64_t noted = run->event_count;
    double kept_side[MOST_SURFACES];
    memcpy(kept_side, trip->side, (size_t)tape->observed * sizeof(double));
    int room = note_crossings(trip, w, h, last, &measured);
    for (int i = 0; room && i < count; i++)
        if (list[i].kind == IMPACT) {
            watched_series(w, list + i, h, p);
            room = note_approach(trip, w, list + i, p, h, i == chosen ? last - 1e-12 : last, &measured);
        }
    if (!room) {
        run->event_count = noted;
        memcpy(trip->side, kept_side, (size_t)tape->observed * sizeof(double));
        run->pending = pending; run->lenient = lenient;
        return FULL;
    }
    double tau = last * h;
    sample_grid(trip, w, tau, chosen < 0 && ends_run);
    interpolate(w, tau, trip->state, columns ? trip->moved : NULL, NULL);
    if (!is_finite_row(trip->state, n)) return NOT_FINITE;
    if (columns && tape->trace >= 0) {
        const double *c = series(w, tape->trace);
        double sum = 0.0;
        for (int k = w->order - 1; k >= 0; k--) sum = (sum + c[k] / (k + 1)) * tau;
        run->log_determinant += sum;
    }
    add_time(run, tau);
    if (chosen < 0 && ends_run) { run->t = run->t1; run->t_low = 0.0; }
    memcpy(run->x, trip->state, (size_t)n * sizeof(double));
    if (columns) memcpy(run->V, trip->moved, (size_t)n * columns * sizeof(double));
    if (chosen < 0) return DECIDED;

    /* An event: decide it on copies; what is not decided leaves state, modes and regime as they were. */
    double t = run->t + run->t_low, kept_determinant = run->log_determinant;
    int32_t kept_regime = run->regime;
    run->ending_kind = list[chosen].kind;
    run->ending_index = list[chosen].index;
    if (t - trip->last_event <= 1e-13 * (1.0 + fabs(t))) trip->at_once++; else trip->at_once = 0;
    int64_t room_left = run->event_room - run->event_count;
    if (doubtful || trip->at_once > run->max_at_once) { trip->last_event = t; return GIVEN_BACK; }
    if (room_left < 1) { trip->at_once--; run->pending = 1; return FULL; }
    evaluate(w, run->runtime, run->wrt, t, trip->state, trip->moved, 0, 1);
    measure_sizes(w);
    double *modes = run->runtime + tape->first_mode;
    int status = GIVEN_BACK;
    memcpy(trip->kept_modes, modes, (size_t)tape->switches * sizeof(double));
    memset(trip->skip, 0, sizeof trip->skip);
    int32_t primary = list[chosen].index;
    int clear = list[chosen].kind != CROSS || find_companions(trip, w, &primary);
    if (clear && !others_near(w, modes, list[chosen].kind, primary, trip->skip)) {
        noted = run->event_count;
        if (list[chosen].kind == CROSS) status = decide_crossing(trip, w, t, primary);
        else if (list[chosen].kind == RELEASE) status = decide_release(trip, w, t, list[chosen].index);
        else if (list[chosen].kind == IMPACT) status = decide_impact(trip, w, t, list[chosen].index);
        if (status == DECIDED && !(is_finite_row(trip->state, n) && (!columns || is_finite_row(trip->moved, (int64_t)n * columns))))
            status = GIVEN_BACK;
        if (status != DECIDED) run->event_count = noted;
    }
    trip->last_event = t;
    if (status != DECIDED) {
        memcpy(modes, trip->kept_modes, (size_t)tape->switches * sizeof(double));
        run->regime = kept_regime;
        run->log_determinant = kept_determinant;
        run->pending = status == NEED_REGIME;
        return status;
    }
    run->handled++;
    run->steps = 0; /* the limit is one of steps between events */
    memcpy(run->x, trip->state, (size_t)n * sizeof(double));
    if (columns) memcpy(run->V, trip->moved, (size_t)n * columns * sizeof(double));
    return DECIDED;
}

#define CLEAR 1e-6

/* A start on the surface of switch i alone: it is left to the side that the rates of both sides lead to, or sticks with
 * state and tangents on the surface: V -= E (s_x V + s_p) / (s_x E), E = -(f(+1) - f(-1)) / 2. */
static int settle_on_surface(kz_trip *trip, kz_work *w, int32_t i) {
    const kz_tape *tape = w->tape;
    kz_run *run = trip->run;
    const int32_t n = tape->states, columns = run->columns;
    double *modes = run->runtime + tape->first_mode, rates[2], size = 0.0;
    double *fields[] = {trip->before, trip->after}, *direction = trip->state;
    if (tape->flags[i] & (NESTED | INNER | DELICATE)) return UNSETTLED;
    for (int side = 1; side >= 0; side--) {
        modes[i] = side ? 1.0 : -1.0;
        evaluate(w, run->runtime, run->wrt, run->t, run->x, run->V, 0, 1);
        rates[side] = value(w, tape->function[i], 1);
        size = fmax(size, largest_rate(w));
        copy_rates(w, fields[side]);
    }
    double least = fmin(fabs(rates[0]), fabs(rates[1])), most = fmax(fabs(rates[0]), fabs(rates[1]));
    if (!(least > CLEARLY * most) || !(least > run->contact_speed) || !(least > CLEARLY * size)) return UNSETTLED;
    if ((rates[0] > 0) == (rates[1] > 0)) {
        modes[i] = rates[0] > 0 ? 1.0 : -1.0;
        return DECIDED;
    }
    int32_t regime = run->next_regime[i];
    if (rates[1] > 0 || (tape->flags[i] & CONTINUOUS) || regime < 0 || regime >= trip->tape_count) return UNSETTLED;
    kz_work *held = work_of(trip, regime);
    if (!held) return MEMORY;
    double gain = 0.5 * (rates[0] - rates[1]), off = value(w, tape->function[i], 0) / gain;
    for (int32_t k = 0; k < n; k++) direction[k] = -0.5 * (fields[1][k] - fields[0][k]);
    memcpy(trip->after, run->x, (size_t)n * sizeof(double));
    modes[i] = 1.0;
    for (int32_t k = 0; k < n; k++) trip->after[k] -= direction[k] * off;
    evaluate(held, run->runtime, run->wrt, run->t, trip->after, run->V, 0, 1);
    measure_sizes(held);
    memset(trip->skip, 0, sizeof trip->skip);
    if (others_near(held, modes, STICK, i, trip->skip)) return UNSETTLED;
    memcpy(run->x, trip->after, (size_t)n * sizeof(double));
    if (columns) {
        memcpy(trip->gradient, tangent(held, held->tape->function[i], 0), (size_t)columns * sizeof(double));
        add_outer(run->V, direction, trip->gradient, -1.0 / gain, n, columns);
        run->log_determinant = -INFINITY;
    }
    run->regime = regime;
    return DECIDED;
}

/* Modes of a start, inner switches first. Starts on a wall or on several surfaces are for the caller. */
static int settle_start(kz_trip *trip) {
    kz_run *run = trip->run;
    kz_work *w = work_of(trip, 0);
    if (!w) return MEMORY;
    const kz_tape *tape = w->tape;
    double *modes = run->runtime + tape->first_mode;
    int32_t on = -1;
    int status = DECIDED, measured = 0;
    for (int32_t i = 0; i < tape->switches; i++) modes[i] = 1.0;
    evaluate(w, run->runtime, run->wrt, run->t, run->x, run->V, 0, 0);
    for (int32_t i = 0; i < tape->switches; i++) {
        double s = value(w, tape->function[i], 0);
        if (!(fabs(s) > CLEAR)) {
            if (!measured) { measure_sizes(w); measured = 1; }
            if (isnan(s) || (tape->flags[i] & (NESTED | INNER | DELICATE))) return UNSETTLED;
            if (is_near(w, tape->function[i])) {
                if (on >= 0) return UNSETTLED;
                on = i;
                continue;
            }
        }
        if (s > 0) continue;
        modes[i] = -1.0;
        if (tape->flags[i] & INNER) {
            evaluate(w, run->runtime, run->wrt, run->t, run->x, run->V, 0, 0);
            measured = 0;
        }
    }
    for (int32_t j = 0; j < tape->walls; j++)
        if (!(value(w, tape->surface[j], 0) > CLEAR)) return UNSETTLED;
    if (on >= 0) status = settle_on_surface(trip, w, on);
    if (status == DECIDED) run->fresh = 0;
    return status;
}

/* Enter the next stretch between knots: its coefficients change the rates, so the start is settled anew. */
static int next_stretch(kz_trip *trip) {
    kz_run *run = trip->run;
    const double end = run->knots[run->knot_done];
    if (!(end >= run->t) || !isfinite(end)) return BAD_CALL;
    memcpy(run->runtime + run->first_coefficient, run->coefficients + run->knot_done * run->signals,
           (size_t)run->signals * sizeof(double));
    run->knot_done++;
    run->t1 = end;
    run->regime = 0; run->fresh = 1; run->steps = 0;
    trip->last_event = trip->last_flip = -INFINITY;
    trip->at_once = 0;
    for (int32_t i = 0; i < trip->tape_count; i++) trip->works[i].is_ready = 0;
    return settle_start(trip);
}

static int is_callable(const kz_tape *const *tapes, int32_t tape_count, const kz_run *run, int order) {
    if (!tapes || tape_count < 1 || order < 4 || order > MOST_ORDER || !run->x || !run->runtime) return 0;
    const kz_tape *first = tapes[0];
    for (int32_t i = 0; i < tape_count; i++)
        if (!tapes[i] || tapes[i]->states != first->states || tapes[i]->switches != first->switches ||
            tapes[i]->walls != first->walls || tapes[i]->observed != first->observed || tapes[i]->runtime != first->runtime ||
            tapes[i]->first_mode != first->first_mode)
            return 0;
    if (run->columns && (run->columns < first->states || run->columns > MOST_COLUMNS || !run->V)) return 0;
    if (run->columns > first->states && !run->wrt) return 0;
    if (run->grid_count && (!run->grid || !run->grid_x)) return 0;
    if (run->event_room < 0 || run->event_count < 0 || run->event_count > run->event_room) return 0;
    if (run->event_room && (!run->event_times || !run->event_states || !run->event_marks)) return 0;
    if (first->switches && !run->next_regime) return 0;
    if (run->knot_count && (!run->knots || !run->coefficients || run->knot_done < 0 || run->signals < 0 ||
                            run->first_coefficient < 0 || run->first_coefficient > first->first_mode - run->signals))
        return 0;
    return run->regime >= 0 && run->regime < tape_count && isfinite(run->t) && isfinite(run->t1);
}

/* Taylor order for a tolerance. */
KZ_API int kz_order(double tolerance) {
    double order = ceil(1.0 - 0.5 * log(tolerance > 0 && tolerance < 1 ? tolerance : 1e-15));
    order = EXTRA_ORDER + (order < 4 ? 4 : order);
    return order > MOST_ORDER ? MOST_ORDER : (int)order;
}

KZ_API int kz_version(void) { return KZ_VERSION; }

/* What runs compute in, kept from one to the next: to open the work of a tape costs as much as several steps. */
typedef struct kz_space {
    kz_work *works;
    int64_t first; /* number of the first tape: the others have its sizes */
    int32_t count, columns, *wrt;
    int order;
    double *scratch;
} kz_space;

static void emptied(kz_space *space) {
    for (int32_t i = 0; i < space->count; i++) closed(space->works + i);
    free(space->works); free(space->wrt); free(space->scratch);
    memset(space, 0, sizeof *space);
}

KZ_API kz_space *kz_space_new(void) { return calloc(1, sizeof(kz_space)); }

KZ_API void kz_space_free(kz_space *space) {
    if (!space) return;
    emptied(space);
    free(space);
}

/* Make the space fit a run: empty it where it was used for others. */
static int prepared(kz_space *space, const kz_tape *const *tapes, int32_t tape_count, const kz_run *run, int order) {
    int32_t extra = run->columns ? run->columns - tapes[0]->states : 0;
    int same = space->scratch && space->first == tapes[0]->number && space->order == order && space->columns == run->columns &&
               (!extra || memcmp(space->wrt, run->wrt, (size_t)extra * sizeof(int32_t)) == 0);
    for (int32_t i = 0; same && i < space->count; i++)
        same = !space->works[i].tape || (i < tape_count && space->works[i].tape == tapes[i] && space->works[i].number == tapes[i]->number);
    if (!same) emptied(space);
    if (!space->scratch) {
        int64_t n = tapes[0]->states, columns = run->columns > n ? run->columns : n;
        int64_t size = 3 * n + columns + 3 * n * columns + tapes[0]->switches + tapes[0]->observed + 1;
        space->scratch = calloc((size_t)size, sizeof(double));
        space->wrt = copied(run->wrt, extra, sizeof(int32_t));
        space->order = order; space->columns = run->columns; space->first = tapes[0]->number;
    }
    if (space->count < tape_count) {
        kz_work *works = realloc(space->works, (size_t)tape_count * sizeof *works);
        if (!works) return 0;
        memset(works + space->count, 0, (size_t)(tape_count - space->count) * sizeof *works);
        space->works = works; space->count = tape_count;
    }
    for (int32_t i = 0; i < space->count; i++) space->works[i].is_ready = 0; /* other parameters */
    return space->scratch && space->wrt;
}

/* Run to t1, or to what is not decided here. A space serves one thread at a time, and tapes that are not freed. */
KZ_API int kz_travel(const kz_tape *const *tapes, int32_t tape_count, kz_run *run, kz_space *space) {
    int order = kz_order(run->tolerance);
    if (!is_callable(tapes, tape_count, run, order) || !space) return run->status = BAD_CALL;
    kz_trip trip = {.tapes = tapes, .tape_count = tape_count, .run = run, .order = order, .last_event = -INFINITY, .last_flip = -INFINITY};
    int64_t n = tapes[0]->states, columns = run->columns > n ? run->columns : n;
    int status = prepared(space, tapes, tape_count, run, order) ? DECIDED : MEMORY;
    if (status == DECIDED) {
        trip.works = space->works;
        trip.before = space->scratch; trip.after = trip.before + n; trip.state = trip.after + n;
        trip.gradient = trip.state + n; trip.matrix = trip.gradient + columns;
        trip.start_V = trip.matrix + n * columns; trip.moved = trip.start_V + n * columns;
        trip.kept_modes = trip.moved + n * columns; trip.side = run->side ? run->side : trip.kept_modes + tapes[0]->switches;
        if (!run->side) memset(trip.side, 0, (size_t)tapes[0]->observed * sizeof(double));
    }
    int at_knot = run->t >= run->t1 && run->knot_done < run->knot_count; /* the next stretch settles its start itself */
    if (status == DECIDED && run->fresh && !at_knot) status = run->regime == 0 ? settle_start(&trip) : BAD_CALL;
    while (status == DECIDED) {
        const double *grid = run->grid;
        while (run->grid_done < run->grid_count && grid[run->grid_done] <= run->t) {
            int64_t at = run->grid_done++;
            memcpy(run->grid_x + at * n, run->x, (size_t)n * sizeof(double));
            if (run->grid_V && run->columns) memcpy(run->grid_V + at * n * run->columns, run->V, (size_t)(n * run->columns) * sizeof(double));
            if (run->grid_rates) {
                kz_work *w = work_of(&trip, run->regime);
                if (!w) { status = MEMORY; break; }
                evaluate(w, run->runtime, run->wrt, run->t, run->x, run->V, 0, 0);
                copy_rates(w, run->grid_rates + at * n);
            }
        }
        if (status != DECIDED) break;
        if (run->t >= run->t1 && !run->pending && run->knot_done < run->knot_count) {
            status = next_stretch(&trip);
            continue;
        }
        if (run->t >= run->t1 && !run->pending) {
            kz_work *w = run->end_rates ? work_of(&trip, run->regime) : NULL;
            if (w) {
                evaluate(w, run->runtime, run->wrt, run->t, run->x, run->V, 0, 0);
                copy_rates(w, run->end_rates);
            }
            status = run->end_rates && !w ? MEMORY : DONE;
            break;
        }
        if (run->steps >= run->max_steps) { status = STEPS; break; }
        if (run->handled >= run->max_events) { status = MANY_EVENTS; break; }
        run->steps++;
        status = step(&trip);
    }
    return run->status = status;
}

/* Runs one after another; each ends with its own status. */
KZ_API void kz_travel_many(const kz_tape *const *tapes, int32_t tape_count, kz_run *runs, int64_t count) {
    kz_space space = {0};
    for (int64_t i = 0; i < count; i++) kz_travel(tapes, tape_count, runs + i, &space);
    emptied(&space);
}
