/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The thread that looks for names: see scanner.h
 */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/clock.h"
#include "drain/scanner.h"
#include "guest-linux/modules.h"
#include "lib/internal/identity.h"
#include "lib/internal/sideband.h"
#include "guest-linux/tasks.h"

/* Between two snapshots, if nobody asks for one */
#define LOOK_INTERVAL_NS    UINT64_C(200000000)
/*
 * Snapshots take no more than this part of the time, and so does waiting for them;
 * but time in which there was nothing to look for is saved up, for when
 * processes come and go.
 */
#define LOOK_PART           50
#define LOOK_SAVED_NS       INT64_C(200000000)
#define LOOK_SPACING_NS     UINT64_C(1000000)
/* Of a limit of CPU time, for the drain needs some, too */
#define LIMIT_PART          2
/*
 * After a snapshot that has found a process, to learn what it makes of itself: it
 * is seen first when exec has not yet given it its name, nor mapped its
 * libraries.
 */
#define LOOK_AGAIN_NS       UINT64_C(10000000)
/* When everything is found out anew, and modules are looked after */
#define WHOLE_INTERVAL_NS   UINT64_C(10000000000)
#define MODULES_INTERVAL_NS UINT64_C(1000000000)
/* Between two searches for a kernel: a guest that boots has none yet */
#define FIND_INTERVAL_NS    UINT64_C(1000000000)
#define FIND_PART           20
/* Snapshots that find nothing, before the kernel is taken to be another one */
#define EMPTY_LOOKS         5

/* How long somebody waits for the first snapshot, at most */
#define WAIT_FIRST_NS       INT64_C(1000000000)
/*
 * The same for a patient scanner, which does not take a CR3 for that of the
 * process that had it such a time ago
 */
#define WAIT_LONG_NS        INT64_C(10000000000)
#define PATIENT_NS          UINT64_C(2000000)

#define SEEN_SLOTS          4096
#define MAX_IMAGES          64

/* first of a process that no snapshot has found yet */
#define NOT_FOUND           UINT64_MAX

/* A process that is known, with one address space */
struct known {
    struct btrail_identity id;
    uint64_t user_pgd;
    uint64_t shape;
    bool whole;                 /* all is written that is so with this shape */
    uint64_t first;
    uint64_t round;             /* of the snapshot that has found it last */
};

/* Time that may be spent */
struct budget {
    int64_t saved;              /* ns */
    uint64_t at;                /* when it was that much */
};

/* Addresses that code was seen to be mapped at */
struct range {
    uint64_t start;
    uint64_t end;
};

struct btrail_scanner {
    btrail_scanner_fn *fn;
    void *opaque;
    bool patient;               /* no budget limits snapshots */
    struct btrail_cpu_limit *limit;
    GThread *thread;

    GMutex lock;
    GCond changed;
    /* Under the lock */
    uint64_t asked;             /* snapshots that somebody wants */
    uint64_t begun;             /* of these */
    uint64_t done;              /* of these */
    bool idle;                  /* the next one is done as soon as asked for */
    bool closing;
    struct budget patience;     /* of those who wait */
    GHashTable *ranges;         /* uint64_t root to GArray of struct range */
    struct btrail_scanner_result result; /* changed by the thread alone */

    uint64_t seen[SEEN_SLOTS];  /* atomic each */
    uint64_t looked;            /* when the last snapshot began; atomic */
    bool again;                 /* atomic: tell again */

    /* What follows belongs to the thread. */
    struct guest_memory *memory;
    uint64_t note;
    uint64_t note_size;
    struct linux_kernel *kernel;
    GHashTable *known;          /* struct known by its id */
    GHashTable *images;         /* GBytes of those that were written */
    GPtrArray *told_symbols;    /* of GBytes: the last ones, packed */
    GPtrArray *told_images;     /* likewise */
    bool symbols;               /* they are written */
    uint64_t modules;           /* what linux_modules_hash() said */
    uint64_t round;
    bool found;                 /* a process by the last snapshot */
    struct budget budget;       /* CPU time for snapshots */
    bool paced;                 /* by the limit, more than by itself */
    unsigned empty;             /* snapshots that found nothing, in succession */
};

/* What may be spent now */
static int64_t budget_at(struct budget *b, uint64_t now)
{
    b->saved += (int64_t)((now - b->at) / LOOK_PART);
    b->saved = MIN(b->saved, LOOK_SAVED_NS);
    b->at = now;
    return b->saved;
}

static uint64_t *seen_slot(struct btrail_scanner *l, uint64_t root)
{
    return &l->seen[(btrail_hash(root) >> 32) % SEEN_SLOTS];
}

void btrail_scanner_ask(struct btrail_scanner *l)
{
    g_mutex_lock(&l->lock);
    l->asked++;
    g_cond_broadcast(&l->changed);
    g_mutex_unlock(&l->lock);
}

bool btrail_scanner_saw_code(struct btrail_scanner *l, uint64_t cr3,
                            uint64_t address)
{
    uint64_t root = cr3 & BTRAIL_CR3_ROOT;
    const GArray *ranges;
    bool known = false;
    guint i;

    g_mutex_lock(&l->lock);
    ranges = g_hash_table_lookup(l->ranges, &root);
    for (i = 0; ranges && i < ranges->len && !known; i++) {
        const struct range *r = &g_array_index(ranges, struct range, i);

        known = address >= r->start && address < r->end;
    }
    g_mutex_unlock(&l->lock);
    return !known || btrail_scanner_saw(l, cr3);
}

bool btrail_scanner_saw(struct btrail_scanner *l, uint64_t cr3)
{
    uint64_t root = cr3 & BTRAIL_CR3_ROOT;
    uint64_t *slot = seen_slot(l, root);

    if (__atomic_load_n(slot, __ATOMIC_RELAXED) == root &&
        !(l->patient &&
          btrail_clock_ns() - __atomic_load_n(&l->looked, __ATOMIC_RELAXED) >
          PATIENT_NS)) {
        return false;
    }
    __atomic_store_n(slot, root, __ATOMIC_RELAXED);
    return true;
}

void btrail_scanner_wait(struct btrail_scanner *l)
{
    uint64_t begin = btrail_clock_ns();
    uint64_t asked;
    gint64 most, until;
    bool first;

    g_mutex_lock(&l->lock);
    asked = l->asked;
    first = !l->done;
    most = l->patient ? WAIT_LONG_NS : first ? WAIT_FIRST_NS :
           budget_at(&l->patience, begin);
    until = g_get_monotonic_time() + most / 1000;
    while (l->done < asked && l->idle && !l->closing && most > 0 &&
           g_cond_wait_until(&l->changed, &l->lock, until)) {
        /* Look again. */
    }
    if (!first) {
        l->patience.saved -= (int64_t)(btrail_clock_ns() - begin);
    }
    g_mutex_unlock(&l->lock);
}

static void write_piece(struct btrail_scanner *l, uint16_t kind, uint64_t time,
                        const void *data, size_t size,
                        const struct btrail_snapshot *snapshot)
{
    struct btrail_sideband_info info = {
        .kind = kind, .size = (uint32_t)size, .time = time,
    };
    struct btrail_buf payload = { 0 };
    struct btrail_found found = { .kind = kind, .snapshot = snapshot };

    btrail_sideband_pack(&info, data, &payload);
    found.payload = payload.data;
    found.size = payload.len;
    if (snapshot) {
        found.memory = l->memory;
        found.levels = l->kernel->walk.levels;
    }
    l->fn(l->opaque, &found);
    if (kind == BTRAIL_SIDEBAND_SYMBOLS) {
        g_ptr_array_set_size(l->told_symbols, 0);
    }
    if (kind != BTRAIL_SIDEBAND_PROCESSES) {
        g_ptr_array_add(kind == BTRAIL_SIDEBAND_SYMBOLS ? l->told_symbols :
                        l->told_images,
                        g_bytes_new(payload.data, payload.len));
    }
    btrail_buf_free(&payload);
}

static void tell_pieces(struct btrail_scanner *l, uint16_t kind,
                        const GPtrArray *pieces)
{
    unsigned i;

    for (i = 0; i < pieces->len; i++) {
        struct btrail_found found = { .kind = kind, .again = true };

        found.payload = g_bytes_get_data(g_ptr_array_index(pieces, i),
                                         &found.size);
        l->fn(l->opaque, &found);
    }
}

/* True if somebody is new, who needs a snapshot with all processes, too. */
static bool tell_again(struct btrail_scanner *l)
{
    struct btrail_found found = { .again = true };

    if (!__atomic_exchange_n(&l->again, false, __ATOMIC_ACQUIRE)) {
        return false;
    }
    l->fn(l->opaque, &found);
    tell_pieces(l, BTRAIL_SIDEBAND_SYMBOLS, l->told_symbols);
    tell_pieces(l, BTRAIL_SIDEBAND_IMAGE, l->told_images);
    found.again = false;
    l->fn(l->opaque, &found);
    return true;
}

static void write_symbols(struct btrail_scanner *l)
{
    uint64_t time = btrail_clock_ns();
    GString *text;

    linux_kernel_begin(l->kernel);
    l->symbols = true;
    l->modules = linux_modules_hash(l->kernel);
    text = linux_symbols(l->kernel);
    write_piece(l, BTRAIL_SIDEBAND_SYMBOLS, time, text->str, text->len,
                NULL);
    g_string_free(text, TRUE);
}

static void write_image(const uint8_t *data, size_t size, void *opaque)
{
    struct btrail_scanner *l = opaque;

    /* A hostile guest may have a new one each time. */
    if (g_hash_table_size(l->images) < MAX_IMAGES &&
        g_hash_table_add(l->images, g_bytes_new(data, size))) {
        write_piece(l, BTRAIL_SIDEBAND_IMAGE, 0, data, size, NULL);
    }
}

/* Make one known by its identity, of which nothing is known yet. */
static struct known *get_known(struct btrail_scanner *l,
                               const struct btrail_process *p)
{
    struct btrail_identity id = btrail_identity_of(p);
    struct known *k = g_hash_table_lookup(l->known, &id);

    if (!k) {
        k = g_new0(struct known, 1);
        k->id = id;
        k->first = NOT_FOUND;
        g_hash_table_insert(l->known, &k->id, k);
    }
    return k;
}

static bool is_known(struct btrail_process *p, uint64_t shape, void *opaque)
{
    struct btrail_scanner *l = opaque;
    struct known *k = get_known(l, p);

    if (!k->whole || k->shape != shape) {
        k->shape = shape;
        k->whole = false;
        return false;
    }
    p->user_pgd = k->user_pgd;
    return true;
}

/* Remember what was found; @p tells how long it has been there. */
static void remember(struct btrail_scanner *l, struct btrail_process *p)
{
    struct known *k = get_known(l, p);

    if (k->first == NOT_FOUND || k->user_pgd != p->user_pgd) {
        k->user_pgd = p->user_pgd;
        k->first = p->first;
        l->found = true;
    }
    if (!(p->flags & BTRAIL_PROCESS_SEEN)) {
        k->whole = !(p->flags & BTRAIL_PROCESS_PARTIAL);
    }
    k->round = l->round;
    p->first = MIN(p->first, k->first);
}

static gboolean is_gone(gpointer key, gpointer value, gpointer opaque)
{
    struct btrail_scanner *l = opaque;
    const struct known *k = value;

    return k->round != l->round;
}

/* Remember where a process has code. */
static void keep_ranges(struct btrail_scanner *l, const struct btrail_process *p)
{
    GArray *ranges = g_array_new(FALSE, FALSE, sizeof(struct range));
    uint64_t roots[2] = { p->pgd, p->user_pgd };
    uint32_t i;

    for (i = 0; i < p->n_mappings; i++) {
        const struct btrail_mapping *m = &p->mappings[i];
        struct range range = { m->start, m->end };

        if (m->flags & BTRAIL_MAPPING_EXEC) {
            g_array_append_val(ranges, range);
        }
    }
    g_mutex_lock(&l->lock);
    for (i = 0; i < 2; i++) {
        if (roots[i]) {
            g_hash_table_replace(l->ranges,
                                 g_memdup2(&roots[i], sizeof(roots[i])),
                                 g_array_ref(ranges));
        }
    }
    g_mutex_unlock(&l->lock);
    g_array_unref(ranges);
}

static gboolean is_not_among(gpointer key, gpointer value, gpointer roots)
{
    return !g_hash_table_contains(roots, key);
}

/*
 * Forget CR3s that are nobody's any more.  Whoever gets their page tables next
 * is to be looked at, even if nobody was found with them before.
 */
static void forget_roots(struct btrail_scanner *l)
{
    g_autoptr(GHashTable) roots = g_hash_table_new(g_int64_hash,
                                                   g_int64_equal);
    GHashTableIter iter;
    gpointer value;
    unsigned i;

    g_hash_table_add(roots, &l->kernel->root);
    g_hash_table_iter_init(&iter, l->known);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct known *k = value;

        g_hash_table_add(roots, &k->id.pgd);
        g_hash_table_add(roots, &k->user_pgd);
    }
    for (i = 0; i < SEEN_SLOTS; i++) {
        uint64_t root = __atomic_load_n(&l->seen[i], __ATOMIC_RELAXED);

        if (root && !g_hash_table_contains(roots, &root)) {
            __atomic_store_n(&l->seen[i], 0, __ATOMIC_RELAXED);
        }
    }
    g_mutex_lock(&l->lock);
    g_hash_table_foreach_remove(l->ranges, is_not_among, roots);
    g_mutex_unlock(&l->lock);
}

static void take_look(struct btrail_scanner *l, bool everything)
{
    struct btrail_snapshot *snapshot = linux_snapshot(l->kernel, btrail_clock_ns,
                                          everything ? NULL : is_known, l);
    size_t size;
    void *data;
    uint32_t i;

    __atomic_store_n(&l->looked, snapshot->begin, __ATOMIC_RELAXED);
    l->round++;
    l->found = false;
    for (i = 0; i < snapshot->n; i++) {
        if (snapshot->processes[i].mm) {
            remember(l, &snapshot->processes[i]);
            if (!(snapshot->processes[i].flags & BTRAIL_PROCESS_SEEN)) {
                keep_ranges(l, &snapshot->processes[i]);
            }
        }
    }
    if (snapshot->flags & BTRAIL_SNAPSHOT_WHOLE) {
        g_hash_table_foreach_remove(l->known, is_gone, l);
        forget_roots(l);
    }
    /* There is a process, or it is not the kernel that it was. */
    l->empty = snapshot->n > 1 ? 0 : l->empty + 1;
    if (!l->empty && !btrail_snapshot_encode(snapshot, &data, &size)) {
        write_piece(l, BTRAIL_SIDEBAND_PROCESSES, snapshot->end, data, size,
                    snapshot);
        free(data);
        g_mutex_lock(&l->lock);
        l->result.snapshots++;
        g_mutex_unlock(&l->lock);
    }
    linux_vdsos(l->kernel, snapshot, write_image, l);
    linux_snapshot_free(snapshot);
}

static void forget_kernel(struct btrail_scanner *l)
{
    linux_kernel_free(l->kernel);
    l->kernel = NULL;
    l->symbols = false;
    l->empty = 0;
    g_hash_table_remove_all(l->known);
}

static bool find_kernel(struct btrail_scanner *l)
{
    char *why;

    l->kernel = linux_kernel_find(l->memory, l->note, l->note_size, &why);
    g_mutex_lock(&l->lock);
    g_free(l->result.why);
    l->result.why = why;
    if (l->kernel) {
        g_free(l->result.release);
        l->result.release = g_strdup(l->kernel->release);
    }
    g_mutex_unlock(&l->lock);
    return l->kernel != NULL;
}

/*
 * Wait until a snapshot is wanted, but not before @earliest; or until @latest.
 * False if it is time to end.
 */
static bool wait_for_work(struct btrail_scanner *l, uint64_t earliest,
                          uint64_t latest)
{
    bool closing;

    g_mutex_lock(&l->lock);
    for (;;) {
        uint64_t now = btrail_clock_ns();
        uint64_t until = l->asked > l->begun ? earliest : latest;

        if (l->closing || now >= until) {
            break;
        }
        g_cond_wait_until(&l->changed, &l->lock,
                          g_get_monotonic_time() +
                          (gint64)(until - now) / 1000 + 1);
    }
    l->begun = l->asked;
    closing = l->closing;
    g_mutex_unlock(&l->lock);
    return !closing;
}

/* How long so much CPU time is to last, if there is a limit */
static uint64_t limit_pace(struct btrail_scanner *l, uint64_t took)
{
    return l->limit && !l->patient ?
           btrail_cpu_limit_pace(l->limit, took, btrail_clock_ns()) *
           LIMIT_PART : 0;
}

/* The thread has used so much more. */
static void charge(struct btrail_scanner *l, uint64_t took)
{
    if (l->limit && btrail_cpu_limit_holds(l->limit)) {
        /* A snapshot can take long, and what is drained should not wait for it. */
        btrail_cpu_limit_spend_slowly(l->limit, took, btrail_clock_ns());
    }
}

/*
 * A snapshot has begun and taken so much CPU time: when may the next one be, and
 * when has it to be?
 */
static void plan(struct btrail_scanner *l, uint64_t begin, uint64_t took,
                 uint64_t *earliest, uint64_t *latest)
{
    uint64_t pace = limit_pace(l, took);
    uint64_t debt;

    budget_at(&l->budget, begin);
    l->budget.saved -= (int64_t)took;
    debt = l->budget.saved < 0 && !l->patient ?
           (uint64_t)-l->budget.saved * LOOK_PART : 0;
    debt = MAX(debt, pace);
    *earliest = begin + MAX(LOOK_SPACING_NS, debt);
    *latest = begin + (l->found ? MAX(LOOK_AGAIN_NS, debt) :
                       MAX(LOOK_INTERVAL_NS, MAX(took * LOOK_PART, pace)));
    l->paced = pace > LOOK_SPACING_NS;
}

/* A snapshot that was asked for has been done. */
static void tell_done(struct btrail_scanner *l)
{
    g_mutex_lock(&l->lock);
    l->done = l->begun;
    l->idle = l->kernel &&
              (l->patient || (l->budget.saved > 0 && !l->paced));
    g_cond_broadcast(&l->changed);
    g_mutex_unlock(&l->lock);
}

static gpointer scanner_thread(gpointer opaque)
{
    struct btrail_scanner *l = opaque;
    uint64_t next_whole = 0, next_modules = 0;
    bool closing = false;

    while (!closing) {
        uint64_t begin = btrail_clock_ns();
        uint64_t took = btrail_clock_cpu_ns();
        uint64_t earliest, latest, all;

        if (!l->kernel && !find_kernel(l)) {
            tell_done(l);
            took = btrail_clock_cpu_ns() - took;
            charge(l, took);
            took = MAX(MAX(FIND_INTERVAL_NS, took * FIND_PART),
                       limit_pace(l, took));
            closing = !wait_for_work(l, begin + took, begin + took);
            continue;
        }
        begin = btrail_clock_ns();
        all = took;
        took = btrail_clock_cpu_ns();
        take_look(l, tell_again(l) || begin >= next_whole);
        took = btrail_clock_cpu_ns() - took;
        if (begin >= next_whole) {
            next_whole = begin + WHOLE_INTERVAL_NS;
        }
        plan(l, begin, took, &earliest, &latest);
        tell_done(l);
        /* Symbols stay where they are, and can be read later. */
        if (begin >= next_modules) {
            next_modules = begin + MODULES_INTERVAL_NS;
            linux_kernel_begin(l->kernel);
            if (!l->symbols ||
                linux_modules_hash(l->kernel) != l->modules) {
                write_symbols(l);
            }
        }
        all = btrail_clock_cpu_ns() - all;
        charge(l, all);
        earliest = MAX(earliest, begin + limit_pace(l, all));
        latest = MAX(latest, earliest);
        closing = !wait_for_work(l, earliest, latest);
        if (l->empty == EMPTY_LOOKS) {
            forget_kernel(l);
            next_whole = 0;
        }
    }
    if (l->kernel || find_kernel(l)) {
        take_look(l, tell_again(l));
        if (!l->symbols) {
            write_symbols(l);
        }
    }
    return NULL;
}

struct btrail_scanner *btrail_scanner_new(struct guest_memory_files *memory,
                                        bool patient,
                                        struct btrail_cpu_limit *limit,
                                        btrail_scanner_fn *fn, void *opaque)
{
    struct btrail_scanner *l = g_new0(struct btrail_scanner, 1);

    l->patient = patient;
    l->limit = limit;
    l->fn = fn;
    l->opaque = opaque;
    g_mutex_init(&l->lock);
    g_cond_init(&l->changed);
    l->idle = true;
    l->budget = l->patience = (struct budget) { LOOK_SAVED_NS,
                                                btrail_clock_ns() };
    l->memory = guest_memory_open(memory);
    l->note = memory->head.note;
    l->note_size = memory->head.note_size;
    guest_memory_files_free(memory);
    l->known = g_hash_table_new_full(btrail_identity_hash,
                                     btrail_identity_equal, NULL, g_free);
    l->ranges = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free,
                                      (GDestroyNotify)g_array_unref);
    l->images = g_hash_table_new_full(g_bytes_hash, g_bytes_equal,
                                      (GDestroyNotify)g_bytes_unref, NULL);
    l->told_symbols = g_ptr_array_new_with_free_func(
        (GDestroyNotify)g_bytes_unref);
    l->told_images = g_ptr_array_new_with_free_func(
        (GDestroyNotify)g_bytes_unref);
    l->thread = g_thread_new("scanner", scanner_thread, l);
    return l;
}

void btrail_scanner_resend(struct btrail_scanner *l)
{
    __atomic_store_n(&l->again, true, __ATOMIC_RELEASE);
    btrail_scanner_ask(l);
}

void btrail_scanner_so_far(struct btrail_scanner *l,
                          struct btrail_scanner_result *result)
{
    g_mutex_lock(&l->lock);
    *result = l->result;
    result->release = g_strdup(l->result.release);
    result->why = g_strdup(l->result.why);
    g_mutex_unlock(&l->lock);
}

void btrail_scanner_finish(struct btrail_scanner *l,
                          struct btrail_scanner_result *result)
{
    g_mutex_lock(&l->lock);
    l->closing = true;
    g_cond_broadcast(&l->changed);
    g_mutex_unlock(&l->lock);
    g_thread_join(l->thread);

    *result = l->result;
    linux_kernel_free(l->kernel);
    guest_memory_free(l->memory);
    g_hash_table_destroy(l->known);
    g_hash_table_destroy(l->images);
    g_hash_table_destroy(l->ranges);
    g_ptr_array_unref(l->told_symbols);
    g_ptr_array_unref(l->told_images);
    g_mutex_clear(&l->lock);
    g_cond_clear(&l->changed);
    g_free(l);
}

void btrail_scanner_result_clear(struct btrail_scanner_result *result)
{
    g_free(result->release);
    g_free(result->why);
    memset(result, 0, sizeof(*result));
}
