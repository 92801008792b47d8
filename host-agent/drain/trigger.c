/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Triggers: see trigger.h
 */

#include <string.h>

#include "drain/kernel-places.h"
#include "drain/long-calls.h"
#include "drain/mark-hits.h"
#include "drain/trigger.h"

/*
 * A bit for each offset in a page at which a trigger may act.  A function has
 * the same offset in all address spaces, so few bits are set.
 */
#define BITS    4096

struct watched_trigger {
    struct trigger trigger;
    struct filtering *process;          /* NULL for any */
    struct symbol_places *places;       /* of a symbol of programs, or NULL */
    struct kernel_places *kernel;       /* of a symbol of the kernel, or NULL */
    struct long_calls *calls;           /* NULL: each branch counts */
    bool spans;                         /* and they are between marks */
    uint64_t hits;
    bool off;                   /* atomic */
    bool reported;              /* by triggers_new_places() */
};

/**
 * struct mark_use
 * @trigger: whose
 * @end:     it ends spans of that
 */
struct mark_use {
    unsigned trigger;
    bool end;
};

struct triggers {
    struct watched_trigger *watched;
    unsigned n;
    int refs;                   /* atomic */
    uint64_t bits[BITS / 64];   /* atomic each */
    bool keeping;
    bool measures;              /* calls, for one of them at least */
    bool spans;                 /* the same of spans between marks */
    uint64_t missed;            /* marks, before the last record */
    struct mark_hits *marks;    /* NULL: none is a mark */
    struct mark_use *uses;      /* by its numbers */
    unsigned n_marks;
    struct btrail_kernel kernels[BTRAIL_MAX_VCPUS]; /* that each runs */
    fired_fn *fired;
    void *opaque;
};

static unsigned bit_of(uint64_t address)
{
    return address % BITS;
}

static void add_bit(void *opaque, uint64_t address)
{
    uint64_t *bits = opaque;
    unsigned bit = bit_of(address);

    bits[bit / 64] |= UINT64_C(1) << bit % 64;
}

/*
 * Sets the bits, after the places that they stand for.  One thread does so, and
 * a bit that stays set is never clear meanwhile.
 */
static void set_bits(struct triggers *t)
{
    uint64_t bits[BITS / 64] = { 0 };

    for (unsigned i = 0; i < t->n; i++) {
        const struct watched_trigger *w = &t->watched[i];

        if (w->places) {
            symbol_places_each(w->places, add_bit, bits);
        } else if (w->kernel) {
            kernel_places_each(w->kernel, add_bit, bits);
        } else if (w->trigger.address) {
            add_bit(bits, w->trigger.address);
        }
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(bits); i++) {
        __atomic_store_n(&t->bits[i], bits[i], __ATOMIC_RELEASE);
    }
}

/* Can any of them start to keep records? */
static bool can_start(const struct triggers *t)
{
    for (unsigned i = 0; i < t->n; i++) {
        if (t->watched[i].trigger.action == TRIGGER_START &&
            !triggers_are_off(t, i)) {
            return true;
        }
    }
    return false;
}

static void set_keeping(struct triggers *t, bool keeping)
{
    __atomic_store_n(&t->keeping, keeping, __ATOMIC_RELAXED);
}

static void act(struct triggers *t, unsigned i, const struct trigger_hit *hit)
{
    struct watched_trigger *w = &t->watched[i];

    if (triggers_are_off(t, i)) {
        return;
    }
    if (++w->hits < w->trigger.hits) {
        return;
    }
    w->hits = 0;
    /* Before anybody is told, who may set it on again. */
    if (w->trigger.once) {
        triggers_set_off(t, i, true);
    }
    switch (w->trigger.action) {
    case TRIGGER_START:
        set_keeping(t, true);
        break;
    case TRIGGER_STOP:
        set_keeping(t, false);
        break;
    default:
        break;
    }
    t->fired(t->opaque, hit, w->trigger.action);
}

/* A branch, or a mark */
static void act_once(struct triggers *t, unsigned i)
{
    const struct trigger_hit hit = { .trigger = i };

    act(t, i, &hit);
}

/* Calls, or spans, that were found to be too long, at once */
static void act_each(struct triggers *t, unsigned i, unsigned n)
{
    const struct watched_trigger *w = &t->watched[i];
    struct trigger_hit hit = { .trigger = i };

    if (n) {
        hit.took = long_calls_take_time(w->calls);
        hit.unsure = w->spans && mark_hits_forgot(t->marks);
    }
    for (; n; n--) {
        act(t, i, &hit);
    }
}

static void mark_hit(void *opaque, unsigned i, unsigned vcpu, uint64_t cr3)
{
    struct triggers *t = opaque;
    const struct mark_use *use = &t->uses[i];
    const struct watched_trigger *w = &t->watched[use->trigger];

    if (use->end) {
        /* That of a thread which has begun none ends none, whatever it is. */
        act_each(t, use->trigger, long_calls_end_span(w->calls, vcpu, cr3));
    } else if (w->process && !filtering_cr3(w->process, cr3)) {
        return;
    } else if (w->spans) {
        long_calls_begin_span(w->calls, vcpu, cr3);
    } else {
        act_once(t, use->trigger);
    }
}

static void want_mark(struct triggers *t, struct mark_wanted *wanted,
                      const struct mark_wanted *mark, unsigned trigger,
                      bool end)
{
    wanted[t->n_marks] = *mark;
    t->uses[t->n_marks++] = (struct mark_use) { trigger, end };
}

/* Finds what all of them want at once. */
static void watch_marks(struct triggers *t,
                        const struct trigger *triggers)
{
    g_autofree struct mark_wanted *wanted = g_new(struct mark_wanted, 2 * t->n);

    t->uses = g_new(struct mark_use, 2 * t->n);
    for (unsigned i = 0; i < t->n; i++) {
        /* A mark that is both ends a span, and then begins the next one. */
        if (triggers[i].until.name) {
            want_mark(t, wanted, &triggers[i].until, i, true);
        }
        if (triggers[i].mark.name) {
            want_mark(t, wanted, &triggers[i].mark, i, false);
        }
    }
    if (t->n_marks) {
        t->marks = mark_hits_new(wanted, t->n_marks, mark_hit, t);
    }
}

struct triggers *
triggers_new(const struct trigger *triggers, unsigned n,
             const struct symbol_files *files,
             fired_fn *fired, void *opaque)
{
    static const struct symbol_files no_files = { NULL };
    struct triggers *t = g_new0(struct triggers, 1);

    t->watched = g_new0(struct watched_trigger, n);
    t->n = n;
    t->refs = 1;
    t->fired = fired;
    t->opaque = opaque;
    for (unsigned i = 0; i < n; i++) {
        const struct trigger *trigger = &triggers[i];
        const char *names[] = { trigger->process, NULL };
        const struct session_filter process = { .processes = names };
        struct watched_trigger *w = &t->watched[i];

        w->trigger = *trigger;
        w->trigger.process = NULL;
        w->trigger.mark.name = NULL;
        w->trigger.until.name = NULL;
        w->trigger.symbol = NULL;
        if (trigger->process && trigger->symbol && trigger->user) {
            w->places = symbol_places_new(trigger->process, trigger->symbol,
                                          files ? files : &no_files);
        } else if (trigger->process) {
            w->process = filtering_new(&process, NULL, NULL);
        }
        if (trigger->symbol && !w->places) {
            w->kernel = kernel_places_new(trigger->symbol);
        }
        w->reported = !trigger->symbol;
        w->spans = trigger->until.name;
        if (trigger->longer_ns) {
            w->calls = w->spans ? long_calls_new_spans(trigger->longer_ns) :
                       long_calls_new(trigger->longer_ns);
            t->measures |= !w->spans;
            t->spans |= w->spans;
        }
    }
    set_bits(t);
    watch_marks(t, triggers);
    t->keeping = !can_start(t);
    return t;
}

struct triggers *triggers_ref(struct triggers *t)
{
    __atomic_fetch_add(&t->refs, 1, __ATOMIC_RELAXED);
    return t;
}

void triggers_unref(struct triggers *t)
{
    if (__atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL)) {
        return;
    }
    for (unsigned i = 0; i < t->n; i++) {
        if (t->watched[i].process) {
            filtering_free(t->watched[i].process);
        }
        symbol_places_free(t->watched[i].places);
        kernel_places_free(t->watched[i].kernel);
        long_calls_free(t->watched[i].calls);
    }
    mark_hits_free(t->marks);
    g_free(t->uses);
    g_free(t->watched);
    g_free(t);
}

void triggers_snapshot(struct triggers *t,
                       const struct btrail_snapshot *snapshot)
{
    for (unsigned i = 0; i < t->n; i++) {
        if (t->watched[i].process) {
            filtering_snapshot(t->watched[i].process, snapshot);
        }
    }
}

void triggers_find(struct triggers *t,
                   const struct btrail_snapshot *snapshot,
                   const struct guest_memory *memory, unsigned levels)
{
    bool any = false;

    for (unsigned i = 0; i < t->n; i++) {
        if (t->watched[i].places) {
            symbol_places_snapshot(t->watched[i].places, snapshot, memory,
                                   levels);
            any = true;
        }
    }
    if (any) {
        set_bits(t);
    }
}

bool triggers_want_names(const struct triggers *t)
{
    for (unsigned i = 0; i < t->n; i++) {
        const struct watched_trigger *w = &t->watched[i];

        if (w->places || w->kernel || w->process) {
            return true;
        }
    }
    return false;
}

bool triggers_want_code(const struct triggers *t)
{
    return t->marks;
}

bool triggers_code(struct triggers *t, unsigned vcpu,
                   const struct btrail_code_item *item,
                   const uint8_t *page)
{
    return t->marks && mark_hits_code(t->marks, vcpu, item, page);
}

bool triggers_lack_code(const struct triggers *t)
{
    return t->marks && mark_hits_lack_code(t->marks);
}

/* The places of a trigger's mark; 0 if it is none */
static unsigned places_of_mark(const struct triggers *t, unsigned i, bool end)
{
    for (unsigned k = 0; k < t->n_marks; k++) {
        if (t->uses[k].trigger == i && t->uses[k].end == end) {
            return mark_hits_places(t->marks, k);
        }
    }
    return 0;
}

/* Is it one with a mark?  Others have one of these. */
static bool has_mark(const struct watched_trigger *w)
{
    return !w->places && !w->kernel && !w->trigger.address;
}

unsigned triggers_ends(const struct triggers *t, unsigned i)
{
    return places_of_mark(t, i, true);
}

uint64_t triggers_left_out(const struct triggers *t, unsigned i)
{
    const struct long_calls *calls = t->watched[i].calls;

    return calls ? long_calls_left_out(calls) : 0;
}

unsigned triggers_places(const struct triggers *t, unsigned i)
{
    const struct watched_trigger *w = &t->watched[i];

    if (has_mark(w)) {
        return places_of_mark(t, i, false);
    }
    return w->places ? symbol_places_count(w->places) :
           w->kernel ? kernel_places_count(w->kernel) :
           w->trigger.address != 0;
}

bool triggers_capped(const struct triggers *t, unsigned i)
{
    const struct watched_trigger *w = &t->watched[i];

    return (has_mark(w) && t->marks && mark_hits_forgot(t->marks)) ||
           (w->places && symbol_places_capped(w->places)) ||
           (w->kernel && kernel_places_capped(w->kernel));
}

bool triggers_new_places(struct triggers *t)
{
    bool any_new = false;

    for (unsigned i = 0; i < t->n; i++) {
        struct watched_trigger *w = &t->watched[i];

        if (!w->reported && triggers_places(t, i)) {
            w->reported = any_new = true;
        }
    }
    return any_new;
}

void triggers_symbols(struct triggers *t, uint16_t kernel,
                      const char *text, size_t size)
{
    g_autofree struct kernel_places **all =
        g_new(struct kernel_places *, t->n);
    unsigned n = 0;

    for (unsigned i = 0; i < t->n; i++) {
        if (t->watched[i].kernel) {
            all[n++] = t->watched[i].kernel;
        }
    }
    if (n) {
        kernel_places_symbols(all, n, kernel, text, size);
        set_bits(t);
    }
}

bool triggers_keeping(const struct triggers *t)
{
    return __atomic_load_n(&t->keeping, __ATOMIC_RELAXED);
}

void triggers_keep(struct triggers *t)
{
    set_keeping(t, true);
}

bool triggers_are_off(const struct triggers *t, unsigned i)
{
    return __atomic_load_n(&t->watched[i].off, __ATOMIC_RELAXED);
}

uint64_t triggers_off(const struct triggers *t)
{
    uint64_t off = 0;

    for (unsigned i = 0; i < t->n; i++) {
        off |= (uint64_t)triggers_are_off(t, i) << i;
    }
    return off;
}

void triggers_set_off(struct triggers *t, unsigned i, bool off)
{
    __atomic_store_n(&t->watched[i].off, off, __ATOMIC_RELAXED);
}

/* Is it where a trigger is, if processes do not count? */
static bool is_address(const struct triggers *t,
                       const struct watched_trigger *w, unsigned vcpu,
                       uint64_t to)
{
    const struct btrail_kernel *runs = &t->kernels[vcpu];

    return w->kernel ? kernel_places_has(w->kernel, to, runs->known ?
                                         &runs->number : NULL) :
           to && w->trigger.address == to;
}

/* Does a branch to @to with this CR3 go to the trigger's place? */
static bool is_place(const struct triggers *t,
                     const struct watched_trigger *w, unsigned vcpu,
                     uint64_t cr3, uint64_t to)
{
    return w->places ? symbol_places_has(w->places, cr3, to) :
           is_address(t, w, vcpu, to) &&
           (!w->process || filtering_cr3(w->process, cr3));
}

/* Does the branch end a call that is measured, of any trigger? */
static void end_calls(struct triggers *t, unsigned vcpu, uint64_t cr3,
                      uint64_t to)
{
    for (unsigned i = 0; i < t->n; i++) {
        struct long_calls *calls = t->watched[i].calls;

        if (calls && !t->watched[i].spans &&
            long_calls_end(calls, vcpu, cr3, to)) {
            act_each(t, i, 1);
        }
    }
}

/* If marks may have been missed, no span counts that they may have ended. */
static void note_missed(struct triggers *t, unsigned vcpu)
{
    if (G_LIKELY(!t->spans || t->missed == mark_hits_missed(t->marks))) {
        return;
    }
    t->missed = mark_hits_missed(t->marks);
    for (unsigned i = 0; i < t->n; i++) {
        if (t->watched[i].spans) {
            long_calls_lost(t->watched[i].calls, vcpu);
        }
    }
}

static bool gate_record(void *opaque, unsigned vcpu, uint64_t index,
                        uint64_t cr3, uint64_t from, uint64_t to)
{
    struct triggers *t = opaque;
    unsigned bit = bit_of(to);
    bool kept = t->keeping;

    if (t->measures) {
        end_calls(t, vcpu, cr3, to);
    }
    if (t->marks) {
        note_missed(t, vcpu);
        mark_hits_record(t->marks, vcpu, index, cr3, from, to);
        note_missed(t, vcpu);
    }
    if (__atomic_load_n(&t->bits[bit / 64], __ATOMIC_RELAXED) >> bit % 64 &
        1) {
        for (unsigned i = 0; i < t->n; i++) {
            struct watched_trigger *w = &t->watched[i];

            if (!is_place(t, w, vcpu, cr3, to)) {
                continue;
            }
            if (w->calls) {
                long_calls_begin(w->calls, vcpu, cr3, from);
            } else {
                act_once(t, i);
            }
        }
    }
    return kept || t->keeping;
}

static void gate_event(void *opaque, unsigned vcpu,
                       const struct btrail_event *event)
{
    struct triggers *t = opaque;

    btrail_event_kernel(event, &t->kernels[vcpu]);
    note_missed(t, vcpu);
    if (t->marks) {
        mark_hits_event(t->marks, vcpu, event);
    }
    for (unsigned i = 0; i < t->n; i++) {
        if (t->watched[i].calls) {
            act_each(t, i, long_calls_event(t->watched[i].calls, vcpu,
                                            event));
        }
    }
}

static void gate_lost(void *opaque, unsigned vcpu)
{
    struct triggers *t = opaque;

    if (t->marks) {
        mark_hits_lost(t->marks, vcpu);
    }
    for (unsigned i = 0; i < t->n; i++) {
        if (t->watched[i].calls) {
            long_calls_lost(t->watched[i].calls, vcpu);
        }
    }
}

struct gate triggers_gate(struct triggers *t,
                          uint64_t tick_ns, unsigned vcpus, bool doubtful,
                          struct btrail_budget *budget)
{
    bool events = t->measures || t->spans || t->marks;

    if (t->marks) {
        mark_hits_set_vcpus(t->marks, vcpus);
        mark_hits_set_budget(t->marks, budget);
    }
    for (unsigned i = 0; i < t->n; i++) {
        if (t->watched[i].calls) {
            long_calls_set_device(t->watched[i].calls, tick_ns,
                                  vcpus);
            long_calls_set_budget(t->watched[i].calls, budget);
            if (doubtful) {
                long_calls_set_doubtful(t->watched[i].calls);
            }
        }
    }
    return (struct gate) {
        .record = gate_record,
        .event = gate_event,
        .lost = events ? gate_lost : NULL,
        .opaque = t,
    };
}

void triggers_passed(struct triggers *t, unsigned vcpu,
                     uint64_t time)
{
    for (unsigned i = 0; i < t->n; i++) {
        if (t->watched[i].calls) {
            long_calls_passed(t->watched[i].calls, vcpu, time);
        }
    }
}

void triggers_tick(struct triggers *t)
{
    note_missed(t, 0);
    for (unsigned i = 0; i < t->n; i++) {
        if (t->watched[i].calls) {
            act_each(t, i, long_calls_waiting(t->watched[i].calls));
        }
    }
}

bool triggers_over(const struct triggers *t)
{
    return !t->keeping && !can_start(t);
}
