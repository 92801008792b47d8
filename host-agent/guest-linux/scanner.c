/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The scanner: see scanner.h
 */

#include <stdlib.h>
#include <string.h>

#include "guest-linux/file-functions.h"
#include "guest-linux/kernel-numbers.h"
#include "guest-linux/kernel-watch.h"
#include "guest-linux/loaded.h"
#include "guest-linux/nested-memory.h"
#include "guest-linux/own-symbols.h"
#include "guest-linux/scanner.h"
#include "guest-linux/switch.h"
#include "guest-linux/syscalls.h"
#include "guest-linux/tasks.h"
#include "lib/agent/bytes.h"
#include "lib/agent/identity.h"
#include "lib/agent/sideband.h"
#include "util/clock.h"

/* Between two snapshots, if none is requested */
#define SNAPSHOT_INTERVAL_NS UINT64_C(200000000)
/*
 * Snapshots use at most this part of the time, and so does waiting for them.
 * Time in which nothing had to be scanned is saved up, for when processes come
 * and go.
 */
#define SNAPSHOT_PART       50
#define BUDGET_MAX_NS       INT64_C(200000000)
#define SNAPSHOT_SPACING_NS UINT64_C(1000000)
/* Of a limit of CPU time: the drain needs some, too */
#define LIMIT_PART          2
/*
 * After a snapshot that has found a new process: exec may not have given it
 * its name yet, nor mapped its libraries.
 */
#define SNAPSHOT_AGAIN_NS   UINT64_C(10000000)
/* Between two snapshots that read everything */
#define WHOLE_INTERVAL_NS   UINT64_C(10000000000)
/*
 * Between two checks of symbols that nobody requests: this many times what the
 * last one took, but at least, and at most, this.  What comes and goes has no
 * name between the last check that has found it and the one that misses it.
 */
#define CHECK_PART          1000
#define CHECK_LEAST_NS      UINT64_C(50000000)
#define CHECK_MOST_NS       UINT64_C(1000000000)
/* All checks use at most this part of the time, as for snapshots. */
#define CHECKS_PART         200
#define CHECKS_MAX_NS       INT64_C(200000000)
/* How often symbols are read that change meanwhile */
#define CHECK_TRIES         3
/* Between two searches for a kernel: a guest that boots has none yet */
#define FIND_INTERVAL_NS    UINT64_C(1000000000)
#define FIND_PART           20
/*
 * The same with wait_for_scan: a guest can boot and end in a second.  As long
 * as searches have not used the budget, a new CR3 waits for one.  The first
 * takes long, as it touches all memory.
 */
#define FIND_SOON_NS        UINT64_C(100000000)
#define FIND_BUDGET_NS      INT64_C(1000000000)
/* Snapshots that find nothing before the kernel is taken to be another one */
#define EMPTY_SNAPSHOTS     5
/* Between two looks whether the kernel still runs, and after one for nothing */
#define LOOK_NS             UINT64_C(50000000)
#define LOOK_IDLE_NS        UINT64_C(200000000)

/* How long scanner_wait() waits for the first snapshot, at most */
#define WAIT_FIRST_NS       INT64_C(1000000000)
/*
 * The same with wait_for_scan; a CR3 then counts as that of the same process
 * for only so long after a snapshot
 */
#define WAIT_LONG_NS        INT64_C(10000000000)
#define TRUST_NS            UINT64_C(2000000)

#define SEEN_SLOTS          4096
#define MAX_IMAGES          64

/* Programs and libraries whose functions are looked for, and how often */
#define MAX_FILES           256
#define FILE_TRIES          32
/* Pages of them that may be read in a snapshot */
#define FILE_BUDGET         16384

/* known_process.first of a process that no snapshot has found yet */
#define NOT_FOUND           UINT64_MAX

/* A process that is known, with one address space */
struct known_process {
    struct btrail_identity id;
    uint64_t user_pgd;
    uint64_t shape;
    bool whole;                 /* all that has this shape was sent */
    uint64_t first;
    uint64_t round;             /* of the last snapshot with it */
};

/*
 * Time that may be spent: a part of all time, which all scanners of a guest
 * have together, and what was not spent of it
 */
struct time_budget {
    unsigned part;              /* one of this many ns */
    int64_t max;                /* that is saved, ns */
    int64_t saved;
    uint64_t at;                /* when it was that much */
};

/* Addresses at which a snapshot has found code mapped */
struct code_range {
    uint64_t start;
    uint64_t end;
};

/* Functions of a program or library: those that were sent last, packed */
struct file_functions {
    GBytes *sent;
    unsigned n;
    unsigned tries;
    bool done;
};

/* Something that the thread does when it is requested, and now and then */
struct scan_work {
    /* Under the lock */
    uint64_t requested;
    uint64_t begun;             /* of these */
    uint64_t done;              /* of these */
    uint64_t idle_from;         /* then, the next one begins when requested */

    /* Of the thread */
    uint64_t earliest;          /* when it may be done next, if requested */
    uint64_t latest;            /* when it must */
    bool due;
};

struct scanner {
    scanner_fn *fn;
    void *opaque;
    bool wait_for_scan;         /* no budget limits snapshots */
    struct cpu_limit *limit;
    struct btrail_budget *kept; /* bytes of what is kept */
    GThread *thread;
    struct kernel_numbers *numbers;     /* as many references as scanners */
    struct scanner *own; /* of a nested one: the guest's; or NULL */
    uint64_t nested_root;       /* 0 if it is none */

    GMutex lock;
    GCond changed;
    struct scan_work snapshots;
    struct scan_work checks;
    /* Under the lock */
    bool closing;
    struct time_budget wait_budget;
    GHashTable *ranges;         /* by root: GArray of struct code_range */
    struct scanner_result result; /* only the thread changes it */
    struct scanner_last last;    /* only the thread changes it */
    struct guest_memory *next_memory;   /* NULL if it has not changed */
    struct btrail_memory next_head;     /* of the same */

    uint64_t stranger;          /* CR3 with which no known kernel runs, 0 if
                                   none was reported; atomic */
    uint64_t seen[SEEN_SLOTS];  /* roots; atomic each */
    uint64_t last_begin;        /* when the last snapshot began, 0 if there is
                                   no kernel; atomic */
    bool resend;                /* atomic */
    unsigned levels;            /* of the kernel's page tables, 0 if there is no
                                   kernel; atomic */
    uint64_t shared_held;       /* @held, for who finds the kernel next; atomic
                                   */
    bool over;                  /* atomic */
    uint64_t image[2];          /* of the kernel, from and to; atomic each */
    struct kernel_watch watch;  /* the drain reports to it */

    /* What follows belongs to the thread. */
    struct guest_memory *ram;
    struct nested_memory *nested;       /* NULL if it is not nested */
    const struct guest_memory *memory;  /* that the kernel has */
    uint64_t cr3;               /* a nested one: the last stranger */
    uint64_t held_before;       /* of @kernel, by who had found it before */
    struct btrail_memory head;
    uint64_t unread;            /* bytes of RAM that cannot be, at most */
    struct linux_kernel *kernel;
    bool searched;              /* for a kernel, once */
    bool ended;                 /* the kernel: what is in memory counts only if
                                   it runs */
    GBytes *sent_ended;         /* This and the others are packed, or NULL. */
    uint16_t ended_of;          /* the kernel of which that was said */
    uint64_t next_look;
    uint64_t next_search;       /* earliest time, for one that runs instead */
    uint64_t next_whole;        /* time of the next snapshot of everything */
    GHashTable *known;          /* struct known_process by its id */
    GHashTable *images;         /* that were sent: GBytes, to GBytes packed */
    GHashTable *functions;      /* struct file_functions by build-id */
    uint64_t file_budget;       /* pages, in this snapshot */
    GBytes *symbols;            /* the kernel's own */
    uint16_t symbols_of;        /* the kernel that has @symbols */
    GBytes *syscalls;
    GBytes *loaded;             /* symbols of what comes and goes */
    bool symbols_sent;          /* those of this kernel */
    uint64_t held;              /* when a check last found them so, if they
                                   hold; or 0 */
    uint64_t loaded_hash;       /* linux_loaded_hash() of them; 0 if they do
                                   not hold */
    uint64_t round;
    bool found_new;             /* the last snapshot has a new process */
    struct time_budget budget;  /* CPU time for snapshots */
    struct time_budget check_budget; /* and for checks */
    struct time_budget find_budget; /* and to find a kernel, with wait_for_scan */
    bool paced;                 /* the limit is stricter than the budget */
    unsigned empty;             /* snapshots without processes, in succession */
};

/* One of how many ns a scanner may spend, if all together may one of @part */
static uint64_t part_of(const struct scanner *sc, unsigned part)
{
    return (uint64_t)part * kernel_numbers_users(sc->numbers);
}

/* Returns the time that may be spent now. */
static int64_t budget_at(const struct scanner *sc,
                         struct time_budget *b, uint64_t now)
{
    b->saved += (int64_t)((now - b->at) / part_of(sc, b->part));
    b->saved = MIN(b->saved, b->max);
    b->at = now;
    return b->saved;
}

/* Spends some; returns how long nothing more may be spent. */
static uint64_t spend(const struct scanner *sc, struct time_budget *b,
                      uint64_t took)
{
    b->saved -= (int64_t)took;
    return b->saved < 0 ? (uint64_t)-b->saved * part_of(sc, b->part) : 0;
}

static uint64_t *seen_slot(struct scanner *sc, uint64_t root)
{
    return &sc->seen[(btrail_hash(root) >> 32) % SEEN_SLOTS];
}

static void request(struct scanner *sc, struct scan_work *work)
{
    g_mutex_lock(&sc->lock);
    work->requested++;
    g_cond_broadcast(&sc->changed);
    g_mutex_unlock(&sc->lock);
}

void scanner_request(struct scanner *sc)
{
    request(sc, &sc->snapshots);
}

void scanner_request_check(struct scanner *sc)
{
    request(sc, &sc->checks);
}

bool scanner_report_kernel_code(struct scanner *sc,
                                uint64_t address)
{
    uint64_t end = __atomic_load_n(&sc->image[1], __ATOMIC_RELAXED);

    return end && (address >= end || address < __atomic_load_n(
                       &sc->image[0], __ATOMIC_RELAXED));
}

void scanner_last(struct scanner *sc,
                  struct scanner_last *last)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&sc->lock);

    *last = sc->last;
}

bool scanner_report_code(struct scanner *sc, uint64_t cr3,
                         uint64_t address)
{
    uint64_t root = btrail_cr3_root(cr3);
    const GArray *ranges;
    bool known = false;

    g_mutex_lock(&sc->lock);
    ranges = g_hash_table_lookup(sc->ranges, &root);
    for (guint i = 0; ranges && i < ranges->len && !known; i++) {
        const struct code_range *r = &g_array_index(ranges,
                                                    struct code_range, i);

        known = address >= r->start && address < r->end;
    }
    g_mutex_unlock(&sc->lock);
    return !known || scanner_report_cr3(sc, cr3);
}

void scanner_report_stranger(struct scanner *sc, uint64_t cr3)
{
    uint64_t root = btrail_cr3_root(cr3);

    /* CR3 is 0 after a reset. */
    if (root & ~BTRAIL_CR3_NESTED &&
        root != __atomic_load_n(&sc->stranger, __ATOMIC_RELAXED)) {
        g_mutex_lock(&sc->lock);
        __atomic_store_n(&sc->stranger, root, __ATOMIC_RELAXED);
        g_cond_broadcast(&sc->changed);
        g_mutex_unlock(&sc->lock);
    }
}

void scanner_report_ran(struct scanner *sc, uint64_t cr3,
                        uint64_t time)
{
    if (time) {
        kernel_watch_report(&sc->watch, cr3, time);
    }
}

bool scanner_report_cr3(struct scanner *sc, uint64_t cr3)
{
    uint64_t root = btrail_cr3_root(cr3);
    uint64_t *slot = seen_slot(sc, root);
    uint64_t last = __atomic_load_n(&sc->last_begin, __ATOMIC_RELAXED);

    if (__atomic_load_n(slot, __ATOMIC_RELAXED) == root &&
        !(sc->wait_for_scan && last && clock_ns() - last > TRUST_NS)) {
        return false;
    }
    __atomic_store_n(slot, root, __ATOMIC_RELAXED);
    return true;
}

/* Is work to be waited for that was requested up to @until, at @now? */
static bool is_awaited(const struct scan_work *work, uint64_t until,
                       uint64_t now)
{
    return work->done < until && now >= work->idle_from;
}

void scanner_wait(struct scanner *sc)
{
    uint64_t begin = clock_ns();
    uint64_t snapshots, checks;
    gint64 most, until;
    bool first;

    g_mutex_lock(&sc->lock);
    snapshots = sc->snapshots.requested;
    checks = sc->checks.requested;
    first = !sc->snapshots.done;
    most = sc->wait_for_scan ? WAIT_LONG_NS : first ? WAIT_FIRST_NS :
           budget_at(sc, &sc->wait_budget, begin);
    until = g_get_monotonic_time() + most / 1000;
    while ((is_awaited(&sc->snapshots, snapshots, begin) ||
            is_awaited(&sc->checks, checks, begin)) && !sc->closing &&
           most > 0 && g_cond_wait_until(&sc->changed, &sc->lock, until)) {
        continue;
    }
    if (!first) {
        sc->wait_budget.saved -= (int64_t)(clock_ns() - begin);
    }
    g_mutex_unlock(&sc->lock);
}

static void drop_sent(struct scanner *sc, GBytes **sent)
{
    if (*sent) {
        btrail_budget_drop(sc->kept, g_bytes_get_size(*sent));
        g_clear_pointer(sent, g_bytes_unref);
    }
}

/*
 * Keeps what was sent, in place of what was kept there before.  Without room for
 * it, who comes later does not get it.
 */
static void keep_sent(struct scanner *sc, GBytes **sent, GBytes *packed)
{
    drop_sent(sc, sent);
    if (btrail_budget_keep(sc->kept, g_bytes_get_size(packed))) {
        *sent = packed;
    } else {
        g_bytes_unref(packed);
    }
}

/* Says what a piece is.  Files are the same with any kernel. */
static struct btrail_sideband_info info_of(const struct scanner *sc,
                                           uint16_t kind, uint64_t time)
{
    return (struct btrail_sideband_info) {
        .kind = kind, .time = time,
        .kernel = kind == BTRAIL_SIDEBAND_IMAGE ||
                  kind == BTRAIL_SIDEBAND_DYNAMIC ? 0 : sc->kernel->number,
    };
}

/* Sends a piece, which it takes, and returns it. */
static GBytes *send_packed(struct scanner *sc,
                           const struct btrail_sideband_info *info,
                           struct btrail_buf *packed,
                           const struct btrail_snapshot *snapshot)
{
    struct scanner_found found = {
        .kind = info->kind, .kernel = info->kernel, .nested = sc->nested_root,
        .packed = packed->data, .packed_size = packed->len,
        .snapshot = snapshot,
    };

    if (snapshot) {
        found.memory = sc->memory;
        found.levels = sc->kernel->walk.levels;
    }
    sc->fn(sc->opaque, &found);
    return g_bytes_new_take(g_realloc(packed->data, packed->len), packed->len);
}

/* Sends a piece and returns it, packed. */
static GBytes *send_piece(struct scanner *sc, uint16_t kind,
                          uint64_t time, const void *data, size_t size,
                          const struct btrail_snapshot *snapshot)
{
    struct btrail_sideband_info info = info_of(sc, kind, time);
    struct btrail_buf packed = { 0 };

    info.size = (uint32_t)size;
    btrail_sideband_pack(&info, data, &packed);
    return send_packed(sc, &info, &packed, snapshot);
}

static void send_text(struct scanner *sc, uint16_t kind, uint64_t time,
                      GString *text, GBytes **sent)
{
    keep_sent(sc, sent, send_piece(sc, kind, time, text->str, text->len,
                                   NULL));
    g_string_free(text, TRUE);
}

static void resend(struct scanner *sc, uint16_t kind, uint16_t kernel,
                   GBytes *packed)
{
    struct scanner_found found = {
        .kind = kind, .kernel = kernel, .nested = sc->nested_root,
        .again = true,
    };

    if (packed) {
        found.packed = g_bytes_get_data(packed, &found.packed_size);
        sc->fn(sc->opaque, &found);
    }
}

/* Returns whether pieces were resent: a snapshot of everything must follow. */
static bool resend_if_requested(struct scanner *sc)
{
    struct scanner_found found = { .nested = sc->nested_root, .again = true };
    GHashTableIter iter;
    gpointer value;

    if (!__atomic_exchange_n(&sc->resend, false, __ATOMIC_ACQUIRE)) {
        return false;
    }
    sc->fn(sc->opaque, &found);
    if (sc->symbols_of == sc->kernel->number) {
        resend(sc, BTRAIL_SIDEBAND_SYMBOLS, sc->symbols_of, sc->symbols);
        resend(sc, BTRAIL_SIDEBAND_SYSCALLS, sc->symbols_of, sc->syscalls);
    }
    /* What is loaded is forgotten with its kernel. */
    resend(sc, BTRAIL_SIDEBAND_SYMBOLS, sc->kernel->number, sc->loaded);
    resend(sc, BTRAIL_SIDEBAND_ENDED, sc->ended_of, sc->sent_ended);
    g_hash_table_iter_init(&iter, sc->images);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        resend(sc, BTRAIL_SIDEBAND_IMAGE, 0, value);
    }
    g_hash_table_iter_init(&iter, sc->functions);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        resend(sc, BTRAIL_SIDEBAND_DYNAMIC, 0,
               ((const struct file_functions *)value)->sent);
    }
    found.again = false;
    sc->fn(sc->opaque, &found);
    return true;
}

/* Says how the tasks of the kernel are found, if there is one. */
static void send_tasks(struct scanner *sc)
{
    struct btrail_tasks tasks = { 0 };
    struct scanner_found found = { .nested = sc->nested_root, .tasks = &tasks };

    if (sc->kernel) {
        linux_switch(sc->kernel, &tasks);
        found.release = sc->kernel->release;
        found.missing = sc->result.missing;
    }
    sc->fn(sc->opaque, &found);
}

static void add_symbols(void *opaque, const char *text, size_t size)
{
    btrail_sideband_add(opaque, text, size);
}

/* Are these, packed, the ones that were sent?  Their times may differ. */
static bool are_sent(const struct scanner *sc,
                     const struct btrail_buf *packed)
{
    size_t size;
    const uint8_t *sent;

    if (sc->symbols_of != sc->kernel->number || !sc->symbols) {
        return false;
    }
    sent = g_bytes_get_data(sc->symbols, &size);
    return size == packed->len &&
           !memcmp(sent + BTRAIL_SIDEBAND_HEADER_SIZE,
                   packed->data + BTRAIL_SIDEBAND_HEADER_SIZE,
                   size - BTRAIL_SIDEBAND_HEADER_SIZE);
}

/* Sends what stays as long as the kernel runs. */
static void send_symbols(struct scanner *sc)
{
    uint64_t time = clock_ns();
    struct btrail_sideband_info info = info_of(sc, BTRAIL_SIDEBAND_SYMBOLS,
                                               time);
    struct btrail_sideband_parts *parts = btrail_sideband_begin(&info);
    struct btrail_buf own;
    uint64_t image[2];

    linux_kernel_begin(sc->kernel);
    sc->symbols_sent = true;
    linux_own_symbols(sc->kernel, add_symbols, parts);
    btrail_sideband_end(parts, &own);
    /* A kernel that was given up and is found again has the same ones. */
    if (are_sent(sc, &own)) {
        btrail_buf_free(&own);
    } else {
        sc->symbols_of = sc->kernel->number;
        keep_sent(sc, &sc->symbols, send_packed(sc, &info, &own, NULL));
        send_text(sc, BTRAIL_SIDEBAND_SYSCALLS, time,
                  linux_syscalls(sc->kernel), &sc->syscalls);
    }
    if (linux_image(sc->kernel, &image[0], &image[1])) {
        __atomic_store_n(&sc->image[0], image[0], __ATOMIC_RELAXED);
        __atomic_store_n(&sc->image[1], image[1], __ATOMIC_RELAXED);
    }
}

/* Has another scanner found the same kernel since? */
static bool has_moved(struct scanner *sc)
{
    return sc->own && sc->kernel &&
           !kernel_numbers_is_of(sc->numbers, sc->kernel->number, sc);
}

/* Says until when the symbols that were sent have held, if they have. */
static void send_held(struct scanner *sc)
{
    if (sc->held && !has_moved(sc)) {
        g_bytes_unref(send_piece(sc, BTRAIL_SIDEBAND_HELD, sc->held, NULL, 0,
                                 NULL));
    }
    sc->held = 0;
    sc->loaded_hash = 0;
}

/* Says when the kernel was last seen to run.  No more is sent of it then. */
static void send_ended(struct scanner *sc)
{
    uint64_t now = clock_ns();
    uint8_t known[BTRAIL_SIDEBAND_ENDED_SIZE];
    GBytes *packed;

    btrail_put64(known, now);
    sc->ended_of = sc->kernel->number;
    packed = send_piece(sc, BTRAIL_SIDEBAND_ENDED, MIN(sc->watch.alive, now),
                        known, sizeof(known), NULL);
    keep_sent(sc, &sc->sent_ended, packed);
}

/* Has others know when what is known of the kernel was so. */
static void note_last(struct scanner *sc)
{
    g_mutex_lock(&sc->lock);
    sc->last = (struct scanner_last) { 0 };
    if (sc->kernel) {
        sc->last.kernel = sc->kernel->number;
        sc->last.held = sc->held;
        sc->last.ran = kernel_watch_doubts(&sc->watch) ? sc->watch.alive : 0;
    }
    __atomic_store_n(&sc->shared_held, sc->last.held, __ATOMIC_RELAXED);
    g_mutex_unlock(&sc->lock);
}

/* Looks whether the kernel runs, if somebody has said what does. */
static void look(struct scanner *sc)
{
    bool any = kernel_watch_look(&sc->watch, sc->kernel, sc->memory);

    sc->next_look = clock_ns() + (any ? LOOK_NS : LOOK_IDLE_NS);
}

/* Reads what is loaded; returns 0 if it changes at the moment. */
static uint64_t loaded_hash(struct scanner *sc)
{
    linux_kernel_begin(sc->kernel);
    return linux_loaded_hash(sc->kernel);
}

/*
 * Sends the symbols of what comes and goes if they are not those that were sent
 * last.  They have been so between two looks that find the same.
 */
static void check_loaded(struct scanner *sc)
{
    uint64_t begin = clock_ns();
    uint64_t hash = loaded_hash(sc);

    if (hash && hash == sc->loaded_hash) {
        sc->held = begin;
        return;
    }
    for (unsigned i = 0; i < CHECK_TRIES && hash; i++) {
        uint64_t time = clock_ns();
        GString *text = linux_loaded_symbols(sc->kernel);
        uint64_t again;

        send_held(sc);
        begin = clock_ns();
        again = loaded_hash(sc);
        if (text && again == hash) {
            send_text(sc, BTRAIL_SIDEBAND_SYMBOLS, time, text, &sc->loaded);
            sc->loaded_hash = hash;
            sc->held = begin;
            return;
        }
        if (text) {
            g_string_free(text, TRUE);
        }
        hash = again;
    }
}

static void send_image(const uint8_t *data, size_t size, void *opaque)
{
    struct scanner *sc = opaque;
    GBytes *image = g_bytes_new(data, size);

    /* A hostile guest may have a new one each time.  Packed, it can be a little
     * larger. */
    if (g_hash_table_size(sc->images) < MAX_IMAGES &&
        !g_hash_table_contains(sc->images, image) &&
        btrail_budget_keep(sc->kept, size * 2)) {
        g_hash_table_insert(sc->images, g_bytes_ref(image),
                            send_piece(sc, BTRAIL_SIDEBAND_IMAGE, 0, data,
                                       size, NULL));
    }
    g_bytes_unref(image);
}

static void free_functions(gpointer p)
{
    struct file_functions *known = p;

    g_clear_pointer(&known->sent, g_bytes_unref);
    g_free(known);
}

/* Sends the functions of a file, if more of it is in memory than before. */
static void send_functions(const struct linux_mapped_file *file, void *opaque)
{
    struct scanner *sc = opaque;
    g_autoptr(GBytes) id = g_bytes_new(file->build_id, file->build_id_size);
    struct file_functions *known = g_hash_table_lookup(sc->functions, id);
    struct linux_file read = { .k = sc->kernel, .mapping = file->mapping,
                               .budget = sc->file_budget };
    struct linux_functions now;

    if (!known && g_hash_table_size(sc->functions) < MAX_FILES) {
        known = g_new0(struct file_functions, 1);
        g_hash_table_insert(sc->functions, g_bytes_ref(id), known);
    }
    if (!known || known->done || !sc->file_budget) {
        return;
    }
    linux_file_functions(&read, file->build_id, file->build_id_size, &now);
    sc->file_budget = read.budget;
    known->done = now.whole || ++known->tries == FILE_TRIES;
    if (now.data && (now.n > known->n || now.whole)) {
        keep_sent(sc, &known->sent,
                  send_piece(sc, BTRAIL_SIDEBAND_DYNAMIC, 0, now.data->data,
                             now.data->len, NULL));
        known->n = now.n;
    }
    g_clear_pointer(&now.data, g_byte_array_unref);
}

/*
 * Returns a process by its identity; a new one becomes known.  NULL if there is
 * no room for it: each snapshot then has all of it
 */
static struct known_process *get_known(struct scanner *sc,
                                       const struct btrail_process *p)
{
    struct btrail_identity id = btrail_identity_of(p);
    struct known_process *k = g_hash_table_lookup(sc->known, &id);

    if (!k && btrail_budget_keep(sc->kept, sizeof(*k))) {
        k = g_new0(struct known_process, 1);
        k->id = id;
        k->first = NOT_FOUND;
        g_hash_table_insert(sc->known, &k->id, k);
    }
    return k;
}

static bool is_known(struct btrail_process *p, uint64_t shape, void *opaque)
{
    struct scanner *sc = opaque;
    struct known_process *k = get_known(sc, p);

    if (!k) {
        return false;
    }
    if (!k->whole || k->shape != shape) {
        k->shape = shape;
        k->whole = false;
        return false;
    }
    p->user_pgd = k->user_pgd;
    return true;
}

/* Remembers a process that was found; @p gets since when it was there. */
static void remember(struct scanner *sc, struct btrail_process *p)
{
    struct known_process *k = get_known(sc, p);

    if (!k) {
        return;
    }
    if (k->first == NOT_FOUND || k->user_pgd != p->user_pgd) {
        k->user_pgd = p->user_pgd;
        k->first = p->first;
        sc->found_new = true;
    }
    if (!(p->flags & BTRAIL_PROCESS_SEEN)) {
        k->whole = !(p->flags & BTRAIL_PROCESS_PARTIAL);
    }
    k->round = sc->round;
    p->first = MIN(p->first, k->first);
}

static gboolean is_gone(gpointer key, gpointer value, gpointer opaque)
{
    struct scanner *sc = opaque;
    const struct known_process *k = value;

    if (k->round == sc->round) {
        return FALSE;
    }
    btrail_budget_drop(sc->kept, sizeof(*k));
    return TRUE;
}

static uint64_t ranges_size(const GArray *ranges)
{
    /* An array can have room for twice as many. */
    return (uint64_t)ranges->len * sizeof(struct code_range) * 2;
}

/* Forgets where code is that runs with page tables. */
static void drop_ranges(struct scanner *sc, const uint64_t *root)
{
    GArray *ranges = g_hash_table_lookup(sc->ranges, root);

    if (ranges) {
        btrail_budget_drop(sc->kept, ranges_size(ranges));
        g_hash_table_remove(sc->ranges, root);
    }
}

/* Remembers where a process has code. */
static void keep_ranges(struct scanner *sc,
                        const struct btrail_process *p)
{
    GArray *ranges = g_array_new(FALSE, FALSE, sizeof(struct code_range));
    uint64_t roots[2] = { p->pgd, p->user_pgd };

    for (uint32_t i = 0; i < p->n_mappings; i++) {
        const struct btrail_mapping *m = &p->mappings[i];
        struct code_range range = { m->start, m->end };

        if (m->flags & BTRAIL_MAPPING_EXEC) {
            g_array_append_val(ranges, range);
        }
    }
    g_mutex_lock(&sc->lock);
    for (uint32_t i = 0; i < 2; i++) {
        if (!roots[i]) {
            continue;
        }
        drop_ranges(sc, &roots[i]);
        if (btrail_budget_keep(sc->kept, ranges_size(ranges))) {
            g_hash_table_insert(sc->ranges,
                                g_memdup2(&roots[i], sizeof(roots[i])),
                                g_array_ref(ranges));
        }
    }
    g_mutex_unlock(&sc->lock);
    g_array_unref(ranges);
}

/*
 * Forgets CR3s that no process has any more.  The next process that gets their
 * page tables needs a snapshot, even if none was found with them before.
 */
static void forget_roots(struct scanner *sc)
{
    g_autoptr(GHashTable) roots = g_hash_table_new(btrail_int64_hash,
                                                   g_int64_equal);
    uint64_t own = sc->kernel->root | sc->kernel->cr3_flags;
    GHashTableIter iter;
    gpointer key, value;

    g_hash_table_add(roots, &own);
    g_hash_table_iter_init(&iter, sc->known);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct known_process *k = value;

        g_hash_table_add(roots, &k->id.pgd);
        g_hash_table_add(roots, &k->user_pgd);
    }
    for (unsigned i = 0; i < SEEN_SLOTS; i++) {
        uint64_t root = __atomic_load_n(&sc->seen[i], __ATOMIC_RELAXED);

        if (root && !g_hash_table_contains(roots, &root)) {
            __atomic_store_n(&sc->seen[i], 0, __ATOMIC_RELAXED);
        }
    }
    g_mutex_lock(&sc->lock);
    g_hash_table_iter_init(&iter, sc->ranges);
    while (g_hash_table_iter_next(&iter, &key, &value)) {
        if (!g_hash_table_contains(roots, key)) {
            btrail_budget_drop(sc->kept, ranges_size(value));
            g_hash_table_iter_remove(&iter);
        }
    }
    g_mutex_unlock(&sc->lock);
}

static void take_snapshot(struct scanner *sc, bool everything)
{
    struct btrail_snapshot *snapshot;
    size_t size;
    void *data;

    sc->found_new = false;
    if (!sc->kernel->tasks) {
        sc->empty = linux_kernel_remains(sc->kernel) ? 0 : sc->empty + 1;
        return;
    }
    snapshot = linux_snapshot(sc->kernel, clock_ns,
                              everything ? NULL : is_known, sc);
    __atomic_store_n(&sc->last_begin, snapshot->begin, __ATOMIC_RELAXED);
    sc->round++;
    for (uint32_t i = 0; i < snapshot->n; i++) {
        if (snapshot->processes[i].mm) {
            remember(sc, &snapshot->processes[i]);
            if (!(snapshot->processes[i].flags & BTRAIL_PROCESS_SEEN)) {
                keep_ranges(sc, &snapshot->processes[i]);
            }
        }
    }
    if (snapshot->flags & BTRAIL_SNAPSHOT_WHOLE) {
        g_hash_table_foreach_remove(sc->known, is_gone, sc);
        forget_roots(sc);
    }
    /* A kernel without processes is not the one that it was. */
    sc->empty = snapshot->n > 1 ? 0 : sc->empty + 1;
    if (!sc->empty && !btrail_snapshot_encode(snapshot, &data, &size)) {
        g_bytes_unref(send_piece(sc, BTRAIL_SIDEBAND_PROCESSES,
                                 snapshot->end, data, size, snapshot));
        free(data);
        g_mutex_lock(&sc->lock);
        sc->result.snapshots++;
        g_mutex_unlock(&sc->lock);
    }
    linux_vdsos(sc->kernel, snapshot, send_image, sc);
    sc->file_budget = FILE_BUDGET;
    linux_executed_files(snapshot, send_functions, sc);
    linux_snapshot_free(snapshot);
}

static void forget_kernel(struct scanner *sc)
{
    send_held(sc);
    linux_kernel_free(sc->kernel);
    sc->kernel = NULL;
    sc->symbols_sent = false;
    __atomic_store_n(&sc->levels, 0, __ATOMIC_RELAXED);
    drop_sent(sc, &sc->loaded);
    __atomic_store_n(&sc->image[1], 0, __ATOMIC_RELAXED);
    sc->empty = 0;
    sc->next_whole = 0;
    __atomic_store_n(&sc->last_begin, 0, __ATOMIC_RELAXED);
    for (guint i = g_hash_table_size(sc->known); i; i--) {
        btrail_budget_drop(sc->kept, sizeof(struct known_process));
    }
    g_hash_table_remove_all(sc->known);
    kernel_watch_begin(&sc->watch, clock_ns());
    note_last(sc);
}

/* Where the image of a nested guest's kernel is in the guest's RAM, or 0 */
static uint64_t place_of(struct scanner *sc, struct linux_kernel *k)
{
    uint64_t physical;

    return sc->nested && page_walk(&k->walk, k->stext, &physical) ?
           nested_memory_place(sc->nested, physical) : 0;
}

/* The guest has reported the address of its own note, not of another's. */
static struct linux_kernel *find_by(struct scanner *sc, uint64_t cr3,
                                    char **why)
{
    return linux_kernel_find(sc->memory, sc->nested ? 0 : sc->head.note,
                             sc->head.note_size, cr3, why);
}

/*
 * Nested page tables have as many levels as the hypervisor's own, which may be
 * unknown.
 */
static struct linux_kernel *find_nested(struct scanner *sc, uint64_t cr3,
                                        char **why)
{
    unsigned own = __atomic_load_n(&sc->own->levels, __ATOMIC_RELAXED);
    struct linux_kernel *k;

    nested_memory_set_levels(sc->nested, own == 5 ? 5 : 4);
    k = find_by(sc, cr3, why);
    if (!k && !own) {
        g_free(*why);
        nested_memory_set_levels(sc->nested, 5);
        k = find_by(sc, cr3, why);
    }
    return k;
}

/* Searches for a kernel, one that runs with @cr3 if that is not 0. */
static struct linux_kernel *search(struct scanner *sc, uint64_t cr3,
                                   char **why)
{
    struct linux_kernel *k = (sc->nested ? find_nested : find_by)(sc, cr3, why);
    uint64_t held;

    if (!k) {
        return NULL;
    }
    k->number = kernel_numbers_take(sc->numbers, k, place_of(sc, k), sc,
                                    &sc->shared_held, &held);
    if (!k->number) {
        *why = g_strdup_printf("the guest has run more than %d kernels",
                               KERNEL_NUMBERS_MAX);
        linux_kernel_free(k);
        return NULL;
    }
    sc->held_before = held;
    return k;
}

static char *unread_text(const struct scanner *sc)
{
    return g_strdup_printf("%" G_GUINT64_FORMAT " KiB of the guest's RAM cannot "
                           "be read, as QEMU does not share it: processes "
                           "there are unknown", sc->unread >> 10);
}

/* What is not as it is in other kernels, and what is lost by that */
static char **list_missing(struct scanner *sc)
{
    GPtrArray *list = g_ptr_array_new();
    struct linux_kernel *k = sc->kernel;
    struct btrail_tasks tasks;

    for (guint i = 0; i < k->missing->len; i++) {
        g_ptr_array_add(list, g_strdup(g_ptr_array_index(k->missing, i)));
    }
    if (k->tasks && k->layout.task_flags != LINUX_NONE &&
        !linux_switch(k, &tasks)) {
        g_ptr_array_add(list, g_strdup("__switch_to_asm, __set_task_comm or "
                                       "current_task is missing: "
                                       LINUX_SWITCHES));
    }
    if (k->wakes_sought && !k->wake) {
        g_ptr_array_add(list, g_strdup("a place of the tracepoints "
                                       "sched_waking and sched_wakeup_new is "
                                       "missing: " LINUX_WAKES));
    }
    if (sc->unread) {
        g_ptr_array_add(list, unread_text(sc));
    }
    g_ptr_array_add(list, NULL);
    return (char **)g_ptr_array_free(list, FALSE);
}

static void set_kernel(struct scanner *sc, struct linux_kernel *k,
                       char *why)
{
    sc->kernel = k;
    if (!k && sc->unread) {
        g_autofree char *kernel = why, *unread = unread_text(sc);

        why = g_strdup_printf("%s; %s", kernel, unread);
    }
    g_mutex_lock(&sc->lock);
    g_free(sc->result.why);
    sc->result.why = why;
    if (k) {
        g_free(sc->result.release);
        g_strfreev(sc->result.missing);
        sc->result.release = g_strdup(k->release);
        sc->result.missing = list_missing(sc);
        if (!k->tasks) {
            sc->result.why = g_strjoinv("; ", sc->result.missing);
        }
    }
    g_mutex_unlock(&sc->lock);
    if (k) {
        __atomic_store_n(&sc->levels, k->walk.levels, __ATOMIC_RELAXED);
    }
    if (k && sc->held_before) {
        /* Who has found it before says nothing more of it. */
        g_bytes_unref(send_piece(sc, BTRAIL_SIDEBAND_HELD, sc->held_before,
                                 NULL, 0, NULL));
    }
}

/*
 * A nested guest must run with what was reported: what there is beside it may
 * have come with a boot loader.
 */
static uint64_t take_stranger(struct scanner *sc)
{
    uint64_t cr3 = __atomic_exchange_n(&sc->stranger, 0, __ATOMIC_RELAXED);

    if (sc->nested) {
        sc->cr3 = cr3 ? cr3 : sc->cr3;
        return sc->cr3;
    }
    return cr3;
}

static bool find_kernel(struct scanner *sc)
{
    uint64_t cr3 = take_stranger(sc);
    struct linux_kernel *k = NULL;
    char *why;

    if (!cr3 && sc->ended) {
        look(sc);
        cr3 = sc->watch.stranger;
        sc->watch.stranger = 0;
    }
    if (cr3 || !sc->ended) {
        k = search(sc, cr3, &why);
    } else {
        why = g_strdup("the guest's kernel has ended, and no other one runs");
    }
    if (k) {
        /* What ran until now was no kernel, or others. */
        kernel_watch_begin(&sc->watch, sc->watch.alive);
        sc->ended = false;
    }
    set_kernel(sc, k, why);
    /* Who waits for the first search must learn that there is no kernel. */
    if (sc->kernel || (!sc->searched && !sc->nested)) {
        send_tasks(sc);
    }
    sc->searched = true;
    return sc->kernel != NULL;
}

/* Remembers how much of the guest's RAM cannot be read; it may come to be. */
static void note_unread(struct scanner *sc)
{
    struct scanner_found found = { 0 };

    /* That the guest's own scanner says. */
    if (sc->nested || sc->head.unshared <= sc->unread) {
        return;
    }
    sc->unread = sc->head.unshared;
    if (sc->kernel) {
        g_mutex_lock(&sc->lock);
        g_strfreev(sc->result.missing);
        sc->result.missing = list_missing(sc);
        g_mutex_unlock(&sc->lock);
        found.release = sc->kernel->release;
        found.missing = sc->result.missing;
        sc->fn(sc->opaque, &found);
    }
}

/* Returns whether other RAM is read from here on than before. */
static bool take_memory(struct scanner *sc)
{
    struct guest_memory *next;

    g_mutex_lock(&sc->lock);
    next = g_steal_pointer(&sc->next_memory);
    if (next) {
        sc->head = sc->next_head;
    }
    g_mutex_unlock(&sc->lock);
    if (next) {
        /* In its place: the kernel that was found has pointers to it. */
        guest_memory_replace(sc->ram, next);
        note_unread(sc);
    }
    return next;
}

/* When it must be done, or may */
static uint64_t due_at(const struct scan_work *work)
{
    return work->requested > work->begun ? work->earliest : work->latest;
}

static void begin_if_due(struct scan_work *work, bool closing, uint64_t now)
{
    work->due = closing || now >= due_at(work);
    if (work->due) {
        work->begun = work->requested;
    }
}

/* How long this much CPU time must last, if there is a limit */
static uint64_t limit_pace(struct scanner *sc, uint64_t took)
{
    return sc->limit && !sc->wait_for_scan ?
           cpu_limit_pace(sc->limit, took, clock_ns()) *
           LIMIT_PART : 0;
}

/* Charges the limit with CPU time of this thread. */
static void charge_scan(struct scanner *sc, uint64_t took)
{
    if (sc->limit && cpu_limit_holds(sc->limit)) {
        /* A snapshot can take long, and the drain should not wait for it. */
        cpu_limit_spend_slowly(sc->limit, took, clock_ns());
    }
}

/*
 * Looks for the kernel that runs with the CR3 that was reported last.  The one
 * that is known does not: it has started another one without a reset, say, and
 * all that it had is still in memory.  Returns whether another one was found.
 */
static bool follow_stranger(struct scanner *sc)
{
    uint64_t cr3 = take_stranger(sc);
    uint64_t begin = clock_ns();
    uint64_t took = clock_cpu_ns();
    struct linux_kernel *k;
    char *why;

    guest_memory_begin(sc->memory);
    if (linux_kernel_runs(sc->kernel, cr3)) {
        /* The vCPU was interrupted by firmware, for example. */
        return false;
    }
    k = search(sc, cr3, &why);
    if (k) {
        forget_kernel(sc);
        set_kernel(sc, k, why);
        send_tasks(sc);
    } else {
        g_free(why);
    }
    took = clock_cpu_ns() - took;
    charge_scan(sc, took);
    sc->next_search = begin + MAX(MAX(FIND_INTERVAL_NS,
                                      took * part_of(sc, FIND_PART)),
                                  limit_pace(sc, took));
    return k;
}

/*
 * Gives the kernel up if it has ended, as far as page tables show it.  Returns
 * whether it has.
 */
static bool follow_end(struct scanner *sc)
{
    look(sc);
    if (!kernel_watch_ended(&sc->watch)) {
        return false;
    }
    send_ended(sc);
    forget_kernel(sc);
    sc->ended = true;
    send_tasks(sc);
    return true;
}

/*
 * Waits until there is something to do, and sets what, or until the kernel is
 * another one.  Returns false if the thread must end.
 */
static bool wait_for_work(struct scanner *sc)
{
    uint64_t now;
    bool closing, other = false, lost = false;

    g_mutex_lock(&sc->lock);
    for (;;) {
        uint64_t until = MIN(due_at(&sc->snapshots), due_at(&sc->checks));

        bool stranger = sc->kernel &&
                        __atomic_load_n(&sc->stranger, __ATOMIC_RELAXED);

        now = clock_ns();
        if (sc->closing || other || lost) {
            break;
        }
        /* First, however much else there is to do. */
        if (sc->kernel && now >= sc->next_look) {
            g_mutex_unlock(&sc->lock);
            lost = follow_end(sc);
            g_mutex_lock(&sc->lock);
            continue;
        }
        if (now >= until) {
            break;
        }
        if (sc->kernel) {
            until = MIN(until, sc->next_look);
        }
        if (stranger && now >= sc->next_search) {
            g_mutex_unlock(&sc->lock);
            other = follow_stranger(sc);
            g_mutex_lock(&sc->lock);
            continue;
        }
        if (stranger) {
            until = MIN(until, sc->next_search);
        }
        g_cond_wait_until(&sc->changed, &sc->lock,
                          g_get_monotonic_time() +
                          (gint64)(until - now) / 1000 + 1);
    }
    closing = sc->closing;
    begin_if_due(&sc->snapshots, closing, now);
    begin_if_due(&sc->checks, closing, now);
    g_mutex_unlock(&sc->lock);
    return !closing;
}

/*
 * How long nothing more of a kind may be done, after what began at @begin and
 * used this much CPU time.  @pace: the same by the limit
 */
static uint64_t debt_of(struct scanner *sc, struct time_budget *budget,
                        uint64_t begin, uint64_t took, uint64_t pace)
{
    uint64_t debt;

    budget_at(sc, budget, begin);
    debt = spend(sc, budget, took);
    return MAX(sc->wait_for_scan ? 0 : debt, pace);
}

/*
 * Sets when the next snapshot may begin and when it must, after one that began
 * at @begin and used this much CPU time.
 */
static void plan_snapshot(struct scanner *sc, uint64_t begin,
                          uint64_t took)
{
    struct scan_work *work = &sc->snapshots;
    uint64_t pace = limit_pace(sc, took);
    uint64_t debt = debt_of(sc, &sc->budget, begin, took, pace);

    work->earliest = begin + MAX(SNAPSHOT_SPACING_NS, debt);
    work->latest = begin + (sc->found_new ? MAX(SNAPSHOT_AGAIN_NS, debt) :
                            MAX(SNAPSHOT_INTERVAL_NS,
                                MAX(took * part_of(sc, SNAPSHOT_PART),
                                    pace)));
    sc->paced = pace > SNAPSHOT_SPACING_NS;
}

/* The same for checks */
static void plan_check(struct scanner *sc, uint64_t begin,
                       uint64_t took)
{
    struct scan_work *work = &sc->checks;
    uint64_t debt = debt_of(sc, &sc->check_budget, begin, took,
                            limit_pace(sc, took));

    work->earliest = begin + debt;
    work->latest = begin + MAX(CLAMP(took * part_of(sc, CHECK_PART),
                                     CHECK_LEAST_NS, CHECK_MOST_NS), debt);
}

/*
 * All work of this kind that was requested before the last one began is done.
 * For what is requested from @idle_from on, the drain may wait.
 */
static void notify_done(struct scanner *sc, struct scan_work *work,
                        uint64_t idle_from)
{
    g_mutex_lock(&sc->lock);
    work->done = work->begun;
    work->idle_from = idle_from;
    g_cond_broadcast(&sc->changed);
    g_mutex_unlock(&sc->lock);
}

/*
 * Waits after a search for a kernel, which began at @begin and has found none.
 * Returns false if the thread must end.
 */
static bool wait_to_search(struct scanner *sc, uint64_t begin,
                           uint64_t took)
{
    struct scan_work *work = &sc->snapshots;
    uint64_t debt;

    /* There is nothing to check. */
    notify_done(sc, &sc->checks, UINT64_MAX);
    sc->checks.earliest = sc->checks.latest = UINT64_MAX;
    if (!sc->wait_for_scan) {
        work->earliest = work->latest =
            begin + MAX(MAX(FIND_INTERVAL_NS, took * part_of(sc, FIND_PART)),
                        limit_pace(sc, took));
        notify_done(sc, work, UINT64_MAX);
        return wait_for_work(sc);
    }
    budget_at(sc, &sc->find_budget, begin);
    debt = spend(sc, &sc->find_budget, took);
    notify_done(sc, work, begin + debt);
    work->earliest = begin + debt;
    work->latest = begin + MAX(FIND_SOON_NS, debt);
    return wait_for_work(sc);
}

static void snapshot(struct scanner *sc)
{
    uint64_t begin = clock_ns();
    uint64_t took = clock_cpu_ns();

    take_snapshot(sc, resend_if_requested(sc) || begin >= sc->next_whole);
    if (begin >= sc->next_whole) {
        sc->next_whole = begin + WHOLE_INTERVAL_NS;
    }
    plan_snapshot(sc, begin, clock_cpu_ns() - took);
    notify_done(sc, &sc->snapshots, sc->wait_for_scan ||
                (sc->budget.saved > 0 && !sc->paced) ? 0 : UINT64_MAX);
}

static void check(struct scanner *sc)
{
    uint64_t begin = clock_ns();
    uint64_t took = clock_cpu_ns();

    look(sc);
    check_loaded(sc);
    note_last(sc);
    plan_check(sc, begin, clock_cpu_ns() - took);
    notify_done(sc, &sc->checks, sc->wait_for_scan ||
                (sc->check_budget.saved > 0 && !sc->paced) ? 0 : UINT64_MAX);
}

/*
 * A kernel that was just found is read at once, whatever was requested.  Who
 * waits for the snapshot waits for the check, too.
 */
static void begin_first(struct scanner *sc)
{
    g_mutex_lock(&sc->lock);
    sc->snapshots.begun = sc->snapshots.requested;
    sc->checks.begun = sc->checks.requested;
    sc->checks.idle_from = sc->snapshots.idle_from;
    g_mutex_unlock(&sc->lock);
}

/* The kernel is another scanner's: there is nothing to do until the end. */
static void wait_for_end(struct scanner *sc)
{
    forget_kernel(sc);
    __atomic_store_n(&sc->over, true, __ATOMIC_RELAXED);
    notify_done(sc, &sc->snapshots, UINT64_MAX);
    notify_done(sc, &sc->checks, UINT64_MAX);
    g_mutex_lock(&sc->lock);
    while (!sc->closing) {
        g_cond_wait(&sc->changed, &sc->lock);
    }
    g_mutex_unlock(&sc->lock);
}

static gpointer scanner_thread(gpointer opaque)
{
    struct scanner *sc = opaque;
    bool closing = false;

    while (!closing) {
        uint64_t begin = clock_ns();
        uint64_t took = clock_cpu_ns();
        uint64_t pace;

        if (take_memory(sc)) {
            sc->next_whole = 0;
        }
        if (!sc->kernel && !find_kernel(sc)) {
            took = clock_cpu_ns() - took;
            charge_scan(sc, took);
            closing = !wait_to_search(sc, begin, took);
            continue;
        }
        begin = clock_ns();
        if (!sc->symbols_sent) {
            begin_first(sc);
            snapshot(sc);
            /* Those of the kernel do not move, so they can be read later. */
            send_symbols(sc);
            check(sc);
        } else {
            if (sc->snapshots.due) {
                snapshot(sc);
            }
            if (sc->checks.due) {
                check(sc);
            }
        }
        took = clock_cpu_ns() - took;
        charge_scan(sc, took);
        pace = begin + limit_pace(sc, took);
        sc->snapshots.earliest = MAX(sc->snapshots.earliest, pace);
        sc->snapshots.latest = MAX(sc->snapshots.latest,
                                   sc->snapshots.earliest);
        sc->checks.earliest = MAX(sc->checks.earliest, pace);
        sc->checks.latest = MAX(sc->checks.latest, sc->checks.earliest);
        closing = !wait_for_work(sc);
        if (has_moved(sc)) {
            wait_for_end(sc);
            return NULL;
        }
        if (sc->empty == EMPTY_SNAPSHOTS) {
            if (sc->watch.reported) {
                send_ended(sc);
            }
            sc->ended = sc->watch.reported;
            forget_kernel(sc);
            send_tasks(sc);
        }
    }
    take_memory(sc);
    if (sc->kernel || (!sc->nested && find_kernel(sc))) {
        take_snapshot(sc, resend_if_requested(sc));
        if (!sc->symbols_sent) {
            send_symbols(sc);
        }
        check_loaded(sc);
        look(sc);
        send_held(sc);
        if (kernel_watch_doubts(&sc->watch)) {
            send_ended(sc);
        }
    }
    return NULL;
}

/* Opens them.  In @head, what cannot be opened is not shared. */
static struct guest_memory *open_memory(const struct guest_memory_files *files,
                                        struct btrail_memory *head)
{
    struct guest_memory *m = guest_memory_open(files);

    *head = files->head;
    for (uint32_t i = 0; i < head->ranges; i++) {
        head->unshared += files->ranges[i].size;
    }
    head->unshared -= guest_memory_size(m);
    return m;
}

/* Starts a scanner, of whose struct the caller has set what is of it alone. */
static struct scanner *start(const struct scanner *with,
                             const struct guest_memory_files *files)
{
    struct scanner *sc = g_memdup2(with, sizeof(*with));

    sc->kept = btrail_budget_ref(with->kept);
    g_mutex_init(&sc->lock);
    g_cond_init(&sc->changed);
    sc->budget = sc->wait_budget = (struct time_budget) {
        SNAPSHOT_PART, BUDGET_MAX_NS, BUDGET_MAX_NS, clock_ns(),
    };
    sc->check_budget = (struct time_budget) {
        CHECKS_PART, CHECKS_MAX_NS, CHECKS_MAX_NS, clock_ns(),
    };
    sc->find_budget = (struct time_budget) {
        FIND_PART, FIND_BUDGET_NS, FIND_BUDGET_NS, clock_ns(),
    };
    sc->ram = open_memory(files, &sc->head);
    sc->memory = sc->ram;
    if (sc->own) {
        sc->nested = nested_memory_new(sc->ram, sc->nested_root,
                                       NESTED_MEMORY_PAGES);
        sc->memory = nested_memory_view(sc->nested);
    } else {
        sc->unread = sc->head.unshared;
    }
    kernel_watch_begin(&sc->watch, clock_ns());
    sc->known = g_hash_table_new_full(btrail_identity_hash,
                                      btrail_identity_equal, NULL, g_free);
    sc->ranges = g_hash_table_new_full(btrail_int64_hash, g_int64_equal, g_free,
                                       (GDestroyNotify)g_array_unref);
    sc->images = g_hash_table_new_full(btrail_bytes_hash, g_bytes_equal,
                                       (GDestroyNotify)g_bytes_unref,
                                       (GDestroyNotify)g_bytes_unref);
    sc->functions = g_hash_table_new_full(btrail_bytes_hash, g_bytes_equal,
                                          (GDestroyNotify)g_bytes_unref,
                                          free_functions);
    sc->thread = g_thread_new("scanner", scanner_thread, sc);
    return sc;
}

struct scanner *
scanner_new(const struct guest_memory_files *files, bool wait_for_scan,
            struct cpu_limit *limit, struct btrail_budget *kept,
            scanner_fn *fn, void *opaque)
{
    const struct scanner with = {
        .wait_for_scan = wait_for_scan, .limit = limit, .kept = kept,
        .fn = fn, .opaque = opaque, .numbers = kernel_numbers_new(),
    };

    return start(&with, files);
}

struct scanner *
scanner_new_nested(struct scanner *own,
                   const struct guest_memory_files *files,
                   uint64_t root, uint64_t cr3)
{
    const struct scanner with = {
        .wait_for_scan = own->wait_for_scan, .limit = own->limit,
        .kept = own->kept,
        .fn = own->fn, .opaque = own->opaque,
        .numbers = kernel_numbers_ref(own->numbers),
        .own = own, .nested_root = root, .stranger = btrail_cr3_root(cr3),
    };

    return start(&with, files);
}

bool scanner_is_over(const struct scanner *sc)
{
    return __atomic_load_n(&sc->over, __ATOMIC_RELAXED);
}

void scanner_memory(struct scanner *sc,
                    const struct guest_memory_files *files)
{
    struct btrail_memory head;
    struct guest_memory *next = open_memory(files, &head);

    g_mutex_lock(&sc->lock);
    guest_memory_free(sc->next_memory);
    sc->next_memory = next;
    sc->next_head = head;
    g_mutex_unlock(&sc->lock);
    scanner_request(sc);
}

void scanner_resend(struct scanner *sc)
{
    __atomic_store_n(&sc->resend, true, __ATOMIC_RELEASE);
    scanner_request(sc);
}

void scanner_status(struct scanner *sc,
                    struct scanner_result *result)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&sc->lock);

    *result = sc->result;
    result->release = g_strdup(sc->result.release);
    result->why = g_strdup(sc->result.why);
    result->missing = g_strdupv(sc->result.missing);
    result->kernels = kernel_numbers_list(sc->numbers);
}

void scanner_finish(struct scanner *sc,
                    struct scanner_result *result)
{
    g_mutex_lock(&sc->lock);
    sc->closing = true;
    g_cond_broadcast(&sc->changed);
    g_mutex_unlock(&sc->lock);
    g_thread_join(sc->thread);

    *result = sc->result;
    result->kernels = kernel_numbers_list(sc->numbers);
    kernel_numbers_leave(sc->numbers, sc);
    kernel_numbers_unref(sc->numbers);
    linux_kernel_free(sc->kernel);
    nested_memory_free(sc->nested);
    guest_memory_free(sc->ram);
    guest_memory_free(sc->next_memory);
    g_hash_table_destroy(sc->known);
    g_hash_table_destroy(sc->images);
    g_hash_table_destroy(sc->functions);
    g_hash_table_destroy(sc->ranges);
    drop_sent(sc, &sc->symbols);
    drop_sent(sc, &sc->syscalls);
    drop_sent(sc, &sc->loaded);
    drop_sent(sc, &sc->sent_ended);
    btrail_budget_unref(sc->kept);
    g_mutex_clear(&sc->lock);
    g_cond_clear(&sc->changed);
    g_free(sc);
}

void scanner_result_clear(struct scanner_result *result)
{
    g_free(result->release);
    g_free(result->why);
    g_strfreev(result->missing);
    g_strfreev(result->kernels);
    memset(result, 0, sizeof(*result));
}
