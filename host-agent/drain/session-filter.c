/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The filter of a session: see session-filter.h
 */

#include <string.h>

#include "drain/session-filter.h"
#include "guest-linux/process.h"
#include "lib/agent/identity.h"

#define ALL (BTRAIL_PRIVILEGE_USER | BTRAIL_PRIVILEGE_KERNEL)

/*
 * How long a process that has ended is remembered: what it made last is drained
 * after the snapshot that does not find it any more.
 */
#define GONE_NS UINT64_C(1000000000)

/**
 * struct found_process - one that a snapshot has found, by one of its page
 *                        tables
 * @gone: when it was first not found again; 0 if it still is
 */
struct found_process {
    uint64_t root;
    struct btrail_identity id;
    bool wanted;
    uint64_t gone;
};

struct filtering {
    bool vcpus[BTRAIL_MAX_VCPUS];
    bool all_vcpus;
    uint64_t *cr3s;
    unsigned n_cr3s;
    char **processes;
    uint32_t privilege;
    entry_fn *entry;
    void *opaque;
    struct gate gate;           /* .record: NULL if all pass */

    GMutex lock;
    GHashTable *found;          /* found_process by root; under the lock */
    bool *ever_found;           /* each of processes; under the lock */

    /* The slab in the making */
    struct btrail_record *records;
    size_t n_records;
    size_t max_records;
    GArray *events;             /* of struct btrail_event */
};

void session_filter_clear(struct session_filter *f)
{
    g_free((gpointer)f->vcpus);
    g_free((gpointer)f->cr3s);
    g_strfreev((char **)f->processes);
}

struct filtering *
filtering_new(const struct session_filter *filter,
              entry_fn *entry, void *opaque)
{
    struct filtering *f = g_new0(struct filtering, 1);

    f->all_vcpus = !filter->n_vcpus;
    for (unsigned i = 0; i < filter->n_vcpus; i++) {
        if (filter->vcpus[i] < BTRAIL_MAX_VCPUS) {
            f->vcpus[filter->vcpus[i]] = true;
        }
    }
    f->n_cr3s = filter->n_cr3s;
    f->cr3s = g_memdup2(filter->cr3s, filter->n_cr3s * sizeof(*f->cr3s));
    f->processes = g_strdupv((char **)filter->processes);
    f->ever_found = g_new0(bool, f->processes ? g_strv_length(f->processes) :
                                 0);
    f->privilege = filter->privilege ?: ALL;
    f->entry = entry;
    f->opaque = opaque;
    g_mutex_init(&f->lock);
    f->found = g_hash_table_new_full(btrail_int64_hash, g_int64_equal, NULL,
                                     g_free);
    f->events = g_array_new(FALSE, FALSE, sizeof(struct btrail_event));
    return f;
}

void filtering_gate(struct filtering *f,
                    const struct gate *gate)
{
    f->gate = *gate;
}

void filtering_free(struct filtering *f)
{
    g_free(f->cr3s);
    g_strfreev(f->processes);
    g_free(f->ever_found);
    g_mutex_clear(&f->lock);
    g_hash_table_destroy(f->found);
    g_free(f->records);
    g_array_unref(f->events);
    g_free(f);
}

static bool all_cr3s(const struct filtering *f)
{
    return !f->n_cr3s && !f->processes;
}

bool filtering_all(const struct filtering *f)
{
    return all_cr3s(f) && f->privilege == ALL && !f->gate.record;
}

bool filtering_vcpu(const struct filtering *f, unsigned vcpu)
{
    return f->all_vcpus || f->vcpus[vcpu];
}

bool filtering_privilege(const struct filtering *f,
                         uint32_t privilege)
{
    return f->privilege & privilege;
}

bool filtering_fixed_cr3s(const struct filtering *f)
{
    return f->n_cr3s && !f->processes;
}

bool filtering_cr3(struct filtering *f, uint64_t cr3)
{
    uint64_t root = btrail_cr3_root(cr3);
    const struct found_process *found;
    bool wanted;

    if (all_cr3s(f)) {
        return true;
    }
    for (unsigned i = 0; i < f->n_cr3s; i++) {
        if (btrail_cr3_is(cr3, f->cr3s[i])) {
            return true;
        }
    }
    if (!f->processes) {
        return false;
    }
    g_mutex_lock(&f->lock);
    found = g_hash_table_lookup(f->found, &root);
    wanted = found && found->wanted;
    g_mutex_unlock(&f->lock);
    return wanted;
}

bool filtering_has_found(struct filtering *f, unsigned i)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&f->lock);

    return f->ever_found[i];
}

static bool is_wanted(struct filtering *f,
                      const struct btrail_process *p)
{
    bool wanted = false;

    for (unsigned i = 0; f->processes[i]; i++) {
        if (process_is(p, f->processes[i])) {
            wanted = f->ever_found[i] = true;
        }
    }
    return wanted;
}

static void add_found(GHashTable *table, const struct btrail_process *p,
                      uint64_t root, bool wanted)
{
    struct found_process *found;

    if (root) {
        found = g_new(struct found_process, 1);
        *found = (struct found_process) {
            root, btrail_identity_of(p), wanted, 0,
        };
        g_hash_table_replace(table, &found->root, found);
    }
}

/*
 * A process that was only seen has no name: it is wanted if it was wanted
 * before.
 */
static bool was_wanted(const struct filtering *f,
                       const struct btrail_process *p)
{
    const struct found_process *old = g_hash_table_lookup(f->found, &p->pgd);
    struct btrail_identity id = btrail_identity_of(p);

    return old && old->wanted && btrail_identity_equal(&old->id, &id);
}

/* Those of before that may still run, or whose records are to be drained */
static GHashTable *remembered(GHashTable *before,
                              const struct btrail_snapshot *snapshot)
{
    GHashTable *now = g_hash_table_new_full(btrail_int64_hash, g_int64_equal,
                                            NULL, g_free);
    GHashTableIter iter;
    gpointer value;

    g_hash_table_iter_init(&iter, before);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct found_process *copy = g_memdup2(value, sizeof(*copy));

        if (snapshot->flags & BTRAIL_SNAPSHOT_WHOLE && !copy->gone) {
            copy->gone = snapshot->end;
        }
        if (!copy->gone || snapshot->end - copy->gone <= GONE_NS) {
            g_hash_table_replace(now, &copy->root, copy);
        } else {
            g_free(copy);
        }
    }
    return now;
}

void filtering_snapshot(struct filtering *f,
                        const struct btrail_snapshot *snapshot)
{
    GHashTable *now;
    GHashTable *old;

    if (!f->processes) {
        return;
    }
    g_mutex_lock(&f->lock);
    now = remembered(f->found, snapshot);
    for (uint32_t i = 0; i < snapshot->n; i++) {
        const struct btrail_process *p = &snapshot->processes[i];
        bool wanted;

        if (!p->mm || p->flags & BTRAIL_PROCESS_KERNEL) {
            continue;
        }
        wanted = p->flags & BTRAIL_PROCESS_SEEN ? was_wanted(f, p) :
                 is_wanted(f, p);
        add_found(now, p, p->pgd, wanted);
        add_found(now, p, p->user_pgd, wanted);
    }
    old = f->found;
    f->found = now;
    g_mutex_unlock(&f->lock);
    g_hash_table_destroy(old);
}

static void add_wanted_event(struct filtering *f,
                             struct filtered *v,
                             const struct btrail_event *event)
{
    struct btrail_event e = *event;

    e.index = v->index;
    g_array_append_val(f->events, e);
}

/* Records are missing, and it is not known how many of them were wanted. */
static void add_unknown_gap(struct filtering *f,
                            struct filtered *v, uint16_t reason)
{
    const struct btrail_event e = {
        .type = BTRAIL_EVENT_GAP,
        .reason = reason,
        .data = { BTRAIL_LOST_UNKNOWN },
    };

    if (v->gap != reason) {
        add_wanted_event(f, v, &e);
        v->gap = reason;
    }
}

/*
 * Does the session want records of all privilege levels?  The addresses of a
 * 32-bit kernel do not say what is the kernel's: with PAE paging there is one,
 * and a session has all that the capture records.
 */
static bool all_privileges(const struct filtering *f, uint64_t cr3)
{
    return f->privilege == ALL || cr3 & BTRAIL_CR3_PAE;
}

/* Returns false if the record is not wanted. */
static inline bool
filter_record(struct filtering *f, unsigned vcpu, uint64_t cr3,
              const struct btrail_record *in, struct btrail_record *out)
{
    /* The producer may still change it, so each field is read once. */
    uint64_t from = __atomic_load_n(&in->from, __ATOMIC_RELAXED);
    uint64_t to = __atomic_load_n(&in->to, __ATOMIC_RELAXED);

    out->flags = __atomic_load_n(&in->flags, __ATOMIC_RELAXED);
    if (all_privileges(f, cr3)) {
        /* as it is */
    } else if (f->privilege == BTRAIL_PRIVILEGE_USER) {
        if (from >> 63) {
            if (to >> 63) {
                return false;
            }
            from = BTRAIL_PSEUDO_FROM_KERNEL;
        } else if (to >> 63) {
            to = f->entry(f->opaque, vcpu, cr3, from, to);
        }
    } else if (f->privilege == BTRAIL_PRIVILEGE_KERNEL) {
        if (!(from >> 63)) {
            if (!(to >> 63)) {
                return false;
            }
            from = BTRAIL_PSEUDO_FROM_USER;
        } else if (!(to >> 63)) {
            to = BTRAIL_PSEUDO_TO_USER;
        }
    }
    out->from = from;
    out->to = to;
    return true;
}

static bool same_task(const struct btrail_event *a,
                      const struct btrail_event *b)
{
    return a->type == b->type && a->reason == b->reason &&
           !memcmp(a->data, b->data, sizeof(a->data));
}

static void add_time(struct filtering *f, struct filtered *v)
{
    if (v->time.type) {
        add_wanted_event(f, v, &v->time);
        v->time.type = 0;
    }
}

/*
 * Adds what is wanted of records with one CR3 and no event in between; @index
 * is the first one's in the capture.
 */
static void filter_records(struct filtering *f, unsigned vcpu,
                           struct filtered *v, uint64_t index,
                           uint64_t cr3, bool wanted,
                           const struct btrail_record *records, size_t n)
{
    struct btrail_record *out = f->records + f->n_records;
    size_t kept = 0;

    v->kept = wanted;
    if (f->gate.record) {
        for (size_t i = 0; i < n; i++) {
            uint64_t from = __atomic_load_n(&records[i].from,
                                            __ATOMIC_RELAXED);
            uint64_t to = __atomic_load_n(&records[i].to, __ATOMIC_RELAXED);

            v->kept = f->gate.record(f->gate.opaque, vcpu, index + i, cr3, from,
                                     to) &&
                      wanted &&
                      filter_record(f, vcpu, cr3, &records[i], &out[kept]);
            kept += v->kept;
        }
    } else if (wanted && all_privileges(f, cr3)) {
        memcpy(out, records, n * sizeof(*out));
        kept = n;
    } else if (wanted) {
        for (size_t i = 0; i < n; i++) {
            v->kept = filter_record(f, vcpu, cr3, &records[i], &out[kept]);
            kept += v->kept;
        }
    }
    v->dropped += n - kept;
    if (!kept) {
        return;
    }
    add_time(f, v);
    if (v->kernel.type && !v->named_kernel) {
        add_wanted_event(f, v, &v->kernel);
        v->named_kernel = true;
        /* It has ended the task. */
        v->named.type = 0;
    }
    if (v->task.type && (v->left || !same_task(&v->task, &v->named))) {
        v->task.reason |= v->left;
        add_wanted_event(f, v, &v->task);
        v->task.reason &= ~BTRAIL_TASK_LEFT_ALL;
        v->named = v->task;
    }
    v->left = 0;
    v->switched = false;
    v->gap = 0;
    f->n_records += kept;
    v->index += kept;
}

/*
 * A slab can name the task again that was named before it.  Of several tasks
 * without a wanted record, only the last one is named.
 */
static void set_task(struct filtered *v, const struct btrail_event *e)
{
    if (!v->task.type || memcmp(v->task.data, e->data, sizeof(e->data))) {
        if (!v->switched) {
            v->left = e->reason & BTRAIL_TASK_LEFT_ALL;
        }
        v->switched = true;
    }
    v->task = *e;
    v->task.reason &= ~BTRAIL_TASK_LEFT_ALL;
    if (e->reason & BTRAIL_TASK_UNKNOWN) {
        v->left = 0;
    }
}

/* Places the marks up to this index of the capture. */
static void place_marks(struct filtered *v, uint64_t index,
                        struct filter_mark **marks, size_t *n)
{
    while (*n && (*marks)->index <= index) {
        (*marks)->placed = v->index;
        (*marks)++;
        (*n)--;
    }
}

static void begin_output(struct filtering *f, struct filtered *v,
                         const struct btrail_slab *slab)
{
    if (f->max_records < slab->n_records) {
        g_free(f->records);
        f->records = g_new(struct btrail_record, slab->n_records);
        f->max_records = slab->n_records;
    }
    f->n_records = 0;
    g_array_set_size(f->events, 0);
    v->dropped = 0;
    /* The slab before may be lost. */
    v->named.type = 0;
    v->named_kernel = false;
    v->checked = (struct btrail_checked_slab) {
        .slab = { .first_index = v->index, .cr3 = slab->cr3 },
        .begin = v->index,
    };
}

void filtering_slab(struct filtering *f, unsigned vcpu,
                    struct filtered *v,
                    const struct btrail_checked_slab *checked,
                    uint64_t index, uint16_t gap_reason,
                    struct filter_mark *marks, size_t n_marks)
{
    const struct btrail_slab *slab = &checked->slab;
    bool wanted = filtering_cr3(f, slab->cr3);
    uint64_t cr3 = slab->cr3;
    uint64_t at = slab->first_index;
    size_t position = 0;

    begin_output(f, v, slab);
    if (checked->begin != index) {
        add_unknown_gap(f, v, gap_reason);
        if (f->gate.lost) {
            f->gate.lost(f->gate.opaque, vcpu);
        }
    }
    for (size_t i = 0; i <= slab->n_events; i++) {
        const struct btrail_event *e = i < slab->n_events ? &slab->events[i] :
                                       NULL;
        size_t n = e ? btrail_slab_before(e, position, at, slab->n_records) :
                   slab->n_records - position;

        while (n) {
            size_t some = n;

            place_marks(v, at, &marks, &n_marks);
            if (n_marks && marks->index - at < n) {
                some = marks->index - at;
            }
            filter_records(f, vcpu, v, at, cr3, wanted,
                           slab->records + position, some);
            position += some;
            at += some;
            n -= some;
        }
        if (!e) {
            break;
        }
        at = MAX(at, e->index);
        if (f->gate.event) {
            f->gate.event(f->gate.opaque, vcpu, e);
        }
        switch (e->type) {
        case BTRAIL_EVENT_TIME:
            v->time = *e;
            /* The last wanted record was made before that. */
            if (v->kept) {
                add_time(f, v);
            }
            continue;
        case BTRAIL_EVENT_TASK:
            set_task(v, e);
            continue;
        case BTRAIL_EVENT_WAKE:
            if (v->kept && !v->switched) {
                break;
            }
            continue;
        case BTRAIL_EVENT_KERNEL:
            v->kernel = *e;
            v->named_kernel = false;
            v->task.type = 0;
            v->left = 0;
            v->switched = false;
            continue;
        case BTRAIL_EVENT_GAP:
            if (e->data[0]) {
                add_unknown_gap(f, v, e->reason);
                continue;
            }
            break;
        case BTRAIL_EVENT_CR3:
            cr3 = e->data[0];
            wanted = filtering_cr3(f, cr3);
            break;
        default:
            break;
        }
        add_wanted_event(f, v, e);
    }
    place_marks(v, at, &marks, &n_marks);
    v->checked.end = v->index;
    v->checked.slab.records = f->records;
    v->checked.slab.n_records = f->n_records;
    v->checked.slab.events = (const struct btrail_event *)f->events->data;
    v->checked.slab.n_events = f->events->len;
}
