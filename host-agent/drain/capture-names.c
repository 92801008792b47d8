/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The names of a capture's guest: see capture-names.h
 */

#include <stdlib.h>
#include <unistd.h>

#include "drain/capture-names.h"
#include "lib/agent/bytes.h"
#include "lib/agent/sideband.h"
#include "util/clock.h"
#include "util/event-fd.h"
#include "util/random.h"

/* A nested guest that has not run for this long has gone, for all we know. */
#define NESTED_IDLE_NS  UINT64_C(60000000000)
/*
 * One that has not run for this long makes room for another.  A guest can
 * pretend to have any number of them.
 */
#define NESTED_ROOM_NS  UINT64_C(5000000000)
#define NESTED_SPACING_NS   UINT64_C(250000000)

void capture_names_init(struct capture_names *n,
                        struct capture_members *members)
{
    n->members = members;
    n->entries = entries_new();
    random_bytes(n->key, sizeof(n->key));
    if (n->wanted) {
        n->result.why = g_strdup("this QEMU does not share the guest's RAM");
    }
}

void capture_names_clear(struct capture_names *n)
{
    scanner_result_clear(&n->result);
    guest_words_result_clear(&n->told);
    entries_free(n->entries);
    btrail_budget_unref(n->budget);
    guest_memory_files_free(n->files);
    g_free(n->release);
    g_strfreev(n->missing);
}

/* Why there are no names, once that is known; NULL if there can be some */
static const char *why_none(const struct capture_names *n)
{
    return n->scanner ? NULL : n->wanted ? n->result.why :
           "the current capture has no names; start a session with "
           "them when no other one is active";
}

void capture_names_known(struct capture_names *n)
{
    n->known = true;
    for (unsigned i = 0; i < n->members->sessions->len; i++) {
        session_names(capture_member(n->members, i), why_none(n));
    }
}

void capture_names_resend(struct capture_names *n, struct session *s)
{
    for (unsigned i = 0; i < CAPTURE_SOURCES; i++) {
        struct scanner *scanner = capture_names_scanner(n, i);

        if (scanner) {
            capture_members_add_late(n->members, i, s);
            scanner_resend(scanner);
        }
    }
    if (n->words) {
        guest_words_resend(n->words);
    }
}

void capture_names_join(struct capture_names *n, struct session *s,
                        bool late)
{
    if (!n->wanted || n->known) {
        session_names(s, why_none(n));
    }
    if (late) {
        capture_names_resend(n, s);
    }
}

/* Reports to one session what held at a time. */
static void send_last(struct session *s, uint16_t kind, uint16_t kernel,
                      uint64_t time, const void *data, uint32_t size)
{
    const struct btrail_sideband_info info = {
        .kind = kind, .kernel = kernel, .size = size, .time = time,
    };
    struct btrail_buf packed = { 0 };

    btrail_sideband_pack(&info, data, &packed);
    session_sideband(s, kind, packed.data, packed.len);
    btrail_buf_free(&packed);
}

/* Says what a scanner has found last. */
static void take_leave(struct capture_names *n, struct session *s,
                       struct scanner *scanner)
{
    struct scanner_last last;
    uint64_t now;
    uint8_t known[BTRAIL_SIDEBAND_ENDED_SIZE];

    scanner_request_check(scanner);
    scanner_wait(scanner);
    g_mutex_lock(&n->members->lock);
    scanner_last(scanner, &last);
    if (last.held && session_sees(s, BTRAIL_PRIVILEGE_KERNEL)) {
        send_last(s, BTRAIL_SIDEBAND_HELD, last.kernel, last.held, NULL, 0);
    }
    if (last.ran) {
        now = clock_ns();
        btrail_put64(known, now);
        send_last(s, BTRAIL_SIDEBAND_ENDED, last.kernel, MIN(last.ran, now),
                  known, sizeof(known));
    }
    g_mutex_unlock(&n->members->lock);
}

void capture_names_leave(struct capture_names *n, struct session *s)
{
    for (unsigned i = 0; i < CAPTURE_SOURCES; i++) {
        if (capture_names_scanner(n, i)) {
            take_leave(n, s, capture_names_scanner(n, i));
        }
    }
}

/* Hands a snapshot to the sessions that see nothing of the kernel. */
static void send_user_snapshot(struct capture_names *n,
                               const struct scanner_piece *piece)
{
    struct btrail_sideband_info info = {
        .kind = piece->kind, .kernel = piece->kernel,
    };
    struct btrail_buf packed = { 0 };
    void *data = NULL;
    size_t size;

    for (unsigned i = 0; i < n->members->sessions->len; i++) {
        struct session *s = capture_member(n->members, i);

        if (session_sees(s, BTRAIL_PRIVILEGE_KERNEL)) {
            continue;
        }
        if (!data) {
            if (snapshot_encode_user(piece->snapshot, n->key, &data,
                                     &size)) {
                return;
            }
            info.size = (uint32_t)size;
            info.time = piece->snapshot->end;
            btrail_sideband_pack(&info, data, &packed);
        }
        session_sideband(s, piece->kind, packed.data, packed.len);
    }
    free(data);
    btrail_buf_free(&packed);
}

/* Which part of a guest a session must see to get what is of it */
static uint32_t sees_of(uint16_t kind)
{
    switch (kind) {
    case BTRAIL_SIDEBAND_IMAGE:
    case BTRAIL_SIDEBAND_DYNAMIC:
        return BTRAIL_PRIVILEGE_USER;
    case BTRAIL_SIDEBAND_ENDED:
    case BTRAIL_SIDEBAND_TOLD_PROCESSES:
        /* It has no addresses of the kernel. */
        return BTRAIL_PRIVILEGE_USER | BTRAIL_PRIVILEGE_KERNEL;
    default:
        return BTRAIL_PRIVILEGE_KERNEL;
    }
}

/* The text of symbols that were found: few sessions read it themselves. */
struct symbols_text {
    void *data;
    size_t size;
};

static void unpack_symbols(struct symbols_text *text,
                           const struct scanner_piece *piece)
{
    struct btrail_sideband_info info;

    if (!text->data && !btrail_sideband_unpack(piece->packed,
                                               piece->packed_size, &info,
                                               &text->data)) {
        text->size = info.size;
    }
}

static void send_piece(struct capture_names *n, const GPtrArray *to,
                       const struct scanner_piece *piece)
{
    uint32_t sees = sees_of(piece->kind);
    /* Filters, triggers and entries are of the guest itself. */
    const struct btrail_snapshot *snapshot = piece->nested ? NULL :
                                             piece->snapshot;
    bool symbols = piece->kind == BTRAIL_SIDEBAND_SYMBOLS && !piece->nested;
    bool entries = false;
    struct symbols_text text = { NULL };

    for (unsigned i = 0; i < to->len; i++) {
        struct session *s = g_ptr_array_index(to, i);

        if (snapshot) {
            session_snapshot(s, snapshot);
        }
        if (session_sees(s, sees)) {
            session_sideband(s, piece->kind, piece->packed,
                             piece->packed_size);
        } else {
            entries = true;
        }
        if (symbols && session_wants_symbols(s)) {
            unpack_symbols(&text, piece);
            session_symbols(s, piece->kernel, text.data, text.size);
        }
    }
    /* A session that does not see the symbols has names of entries instead. */
    if (symbols && entries) {
        unpack_symbols(&text, piece);
        entries_symbols(n->entries, text.data, text.size);
    }
    free(text.data);
}

/*
 * Finds the places where triggers act.  Since that may read files, it is done
 * without the lock, for which others would wait; triggers may outlive their
 * sessions meanwhile.
 */
static void find_places(struct capture_names *n,
                        const struct scanner_piece *piece)
{
    g_autoptr(GPtrArray) triggers = g_ptr_array_new_with_free_func(
        (GDestroyNotify)triggers_unref);

    g_mutex_lock(&n->members->lock);
    for (unsigned i = 0; i < n->members->sessions->len; i++) {
        struct triggers *t =
            session_triggers(capture_member(n->members, i));

        if (t) {
            g_ptr_array_add(triggers, t);
        }
    }
    g_mutex_unlock(&n->members->lock);
    for (unsigned i = 0; i < triggers->len; i++) {
        triggers_find(g_ptr_array_index(triggers, i), piece->snapshot,
                      piece->memory, piece->levels);
    }
}

/* Between the two, pieces found before are sent to the late members. */
static void begin_or_end_resending(struct capture_members *m, unsigned source,
                                   bool begin)
{
    GPtrArray *empty = m->resending[source];

    g_ptr_array_set_size(empty, 0);
    if (begin) {
        m->resending[source] = m->late[source];
        m->late[source] = empty;
    }
}

/* Number 0 is the guest's own scanner; CAPTURE_SOURCES: there is none. */
static unsigned source_of(const struct capture_names *n, uint64_t nested)
{
    unsigned i = 0;

    while (i < CAPTURE_SOURCES && n->nested[i].root != nested) {
        i++;
    }
    return nested ? i : 0;
}

/* The next four hand on what a scanner has found; called by its thread. */
static void got_piece(void *opaque, const struct scanner_piece *piece)
{
    struct capture_names *n = opaque;
    struct capture_members *m = n->members;
    unsigned source;

    if (piece->snapshot && !piece->nested) {
        find_places(n, piece);
    }
    g_mutex_lock(&m->lock);
    source = source_of(n, piece->nested);
    /* Otherwise it is about to be finished. */
    if (source < CAPTURE_SOURCES) {
        send_piece(n, piece->again ? m->resending[source] : m->sessions,
                   piece);
        if (piece->snapshot) {
            send_user_snapshot(n, piece);
        }
    }
    g_mutex_unlock(&m->lock);
}

static void got_resending(void *opaque, uint64_t nested, bool begin)
{
    struct capture_names *n = opaque;
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&n->members->lock);
    unsigned source = source_of(n, nested);

    if (source < CAPTURE_SOURCES) {
        begin_or_end_resending(n->members, source, begin);
    }
}

static void got_kernel(void *opaque, uint64_t nested, const char *release,
                       char **missing)
{
    struct capture_names *n = opaque;
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&n->members->lock);

    if (!nested) {
        g_free(n->release);
        g_strfreev(n->missing);
        n->release = g_strdup(release);
        n->missing = g_strdupv(missing);
    }
}

static void got_tasks(void *opaque, uint64_t nested,
                      const struct btrail_tasks *tasks)
{
    struct capture_names *n = opaque;
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&n->members->lock);
    unsigned source = source_of(n, nested);

    if (source < CAPTURE_SOURCES) {
        n->tasks[source] = *tasks;
        __atomic_store_n(&n->tasks_due, 1, __ATOMIC_RELAXED);
        event_fd_set(n->wake_fd);
    }
}

static const struct scanner_ops scanner_ops = {
    .piece = got_piece,
    .resending = got_resending,
    .kernel = got_kernel,
    .tasks = got_tasks,
};

/* Finds a place for another one, or returns CAPTURE_SOURCES. */
static unsigned find_room(struct capture_names *n, uint64_t now)
{
    unsigned room = CAPTURE_SOURCES;

    for (unsigned i = 1; i < CAPTURE_SOURCES; i++) {
        const struct capture_nested *nested = &n->nested[i];

        if (!nested->root || scanner_is_over(nested->scanner)) {
            return i;
        }
        if (!nested->ran && now > nested->ran_at + NESTED_ROOM_NS &&
            (room == CAPTURE_SOURCES ||
             nested->ran_at < n->nested[room].ran_at)) {
            room = i;
        }
    }
    return room;
}

/* Ends the scanner of a source, and all that is of it. */
static void drop_nested(struct capture_names *n, unsigned source)
{
    struct capture_nested *nested = &n->nested[source];
    struct scanner_result result;

    if (!nested->root) {
        return;
    }
    scanner_finish(nested->scanner, &result);
    scanner_result_clear(&result);
    g_mutex_lock(&n->members->lock);
    *nested = (struct capture_nested) { 0 };
    n->tasks[source] = (struct btrail_tasks) { 0 };
    __atomic_store_n(&n->tasks_due, 1, __ATOMIC_RELAXED);
    g_ptr_array_set_size(n->members->late[source], 0);
    g_ptr_array_set_size(n->members->resending[source], 0);
    g_mutex_unlock(&n->members->lock);
}

static unsigned add_nested(struct capture_names *n, uint64_t root,
                           uint64_t cr3)
{
    uint64_t now = clock_ns();
    unsigned source;

    /* Before it has page tables of its own, there is nothing to look for. */
    if (!n->scanner || !n->nests ||
        !(btrail_cr3_root(cr3) & ~BTRAIL_CR3_NESTED) ||
        now < n->nested_at + NESTED_SPACING_NS) {
        return CAPTURE_SOURCES;
    }
    source = find_room(n, now);
    if (source < CAPTURE_SOURCES) {
        drop_nested(n, source);
        n->nested_at = now;
        /* It may find something before it is known here. */
        g_mutex_lock(&n->members->lock);
        n->nested[source] = (struct capture_nested) {
            .root = root, .ran = true, .ran_at = now,
            .scanner = scanner_new_nested(n->scanner, n->files, root,
                                          cr3),
        };
        g_mutex_unlock(&n->members->lock);
    }
    return source;
}

unsigned capture_names_source(struct capture_names *n,
                              const struct btrail_kernel *kernel,
                              uint64_t cr3)
{
    unsigned source;

    if (!kernel->nested) {
        return n->scanner ? 0 : CAPTURE_SOURCES;
    }
    /* Without nested paging the hypervisor makes page tables for its guest. */
    if (!kernel->nested_root) {
        return CAPTURE_SOURCES;
    }
    source = source_of(n, kernel->nested_root);
    if (source < CAPTURE_SOURCES &&
        scanner_is_over(n->nested[source].scanner)) {
        drop_nested(n, source);
        source = CAPTURE_SOURCES;
    }
    if (source == CAPTURE_SOURCES) {
        source = add_nested(n, kernel->nested_root, cr3);
    }
    if (source < CAPTURE_SOURCES) {
        n->nested[source].ran = true;
    }
    return source;
}

void capture_names_age(struct capture_names *n, uint64_t now)
{
    for (unsigned i = 1; i < CAPTURE_SOURCES; i++) {
        struct capture_nested *nested = &n->nested[i];

        if (nested->ran) {
            nested->ran = false;
            nested->ran_at = now;
        } else if (nested->root && now > nested->ran_at + NESTED_IDLE_NS) {
            drop_nested(n, i);
        }
    }
}

void capture_names_take_memory(struct capture_names *n,
                               struct guest_memory_files *files)
{
    if (n->scanner) {
        /* What could not be shared now may be the next time. */
        if (files->reason == BTRAIL_MEMORY_FAILED) {
            guest_memory_files_free(files);
            return;
        }
        for (unsigned i = 0; i < CAPTURE_SOURCES; i++) {
            if (capture_names_scanner(n, i)) {
                scanner_memory(capture_names_scanner(n, i), files);
            }
        }
        guest_memory_files_free(n->files);
        n->files = files;
        return;
    }
    g_clear_pointer(&n->result.why, g_free);
    switch (files->reason) {
    case BTRAIL_MEMORY_SHARED:
        n->scanner = scanner_new(files, n->wait_for_scan, n->limit,
                                 n->budget, &scanner_ops, n);
        break;
    case BTRAIL_MEMORY_PRIVATE:
        n->result.why = g_strdup(
            "the guest's RAM is private to QEMU; start it with -object "
            "memory-backend-memfd,id=ram,size=SIZE,share=on and -machine "
            "memory-backend=ram, where SIZE is that of -m");
        break;
    default:
        n->result.why = g_strdup("QEMU could not share the guest's RAM");
        break;
    }
    guest_memory_files_free(n->files);
    n->files = files;
    capture_names_known(n);
}

void capture_names_ask(struct capture_names *n, int sock)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&n->members->lock);

    if (n->words || n->ended) {
        close(sock);
        return;
    }
    __atomic_store_n(&n->words, guest_words_new(sock, n->limit,
                                                n->budget, got_piece,
                                                n),
                     __ATOMIC_RELEASE);
}

/* What the guest itself has said is better than nothing. */
static void add_told(struct scanner_result *result,
                     const struct guest_words_result *told)
{
    if (result->snapshots || (!told->named && !told->why)) {
        return;
    }
    g_free(result->why);
    result->why = g_strdup(told->named ? NULL : told->why);
    if (!result->release) {
        result->release = g_strdup(told->release);
    }
}

char **capture_names_missing(const struct capture_names *n, char **missing)
{
    uint64_t refused = btrail_budget_refused(n->budget);
    guint length = missing ? g_strv_length(missing) : 0;

    if (!refused) {
        return g_strdupv(missing);
    }
    missing = g_renew(char *, g_strdupv(missing), length + 2);
    missing[length] = g_strdup_printf(
        "%" G_GUINT64_FORMAT " were left out: the budget of %" G_GUINT64_FORMAT
        " MiB for names is used up", refused,
        btrail_budget_size(n->budget) >> 20);
    missing[length + 1] = NULL;
    return missing;
}

/* The same for what a session gets at its end */
static void add_left_out(const struct capture_names *n,
                         struct scanner_result *result)
{
    char **missing = capture_names_missing(n, result->missing);

    g_strfreev(result->missing);
    result->missing = missing;
}

void capture_names_so_far(struct capture_names *n,
                          struct scanner_result *result)
{
    if (n->scanner) {
        scanner_status(n->scanner, result);
    } else {
        *result = (struct scanner_result) {
            .why = g_strdup(n->result.why),
        };
    }
    if (n->words) {
        struct guest_words_result told;

        guest_words_status(n->words, &told);
        add_told(result, &told);
        guest_words_result_clear(&told);
    }
    add_left_out(n, result);
}

bool capture_names_tasks(struct capture_names *n, struct btrail_tasks *tasks,
                         unsigned *count)
{
    g_autoptr(GMutexLocker) locker = NULL;

    if (!__atomic_load_n(&n->tasks_due, __ATOMIC_RELAXED)) {
        return false;
    }
    locker = g_mutex_locker_new(&n->members->lock);
    __atomic_store_n(&n->tasks_due, 0, __ATOMIC_RELAXED);
    tasks[0] = n->tasks[0];
    *count = 1;
    for (unsigned i = 1; i < CAPTURE_SOURCES; i++) {
        if (n->tasks[i].number) {
            tasks[(*count)++] = n->tasks[i];
        }
    }
    return true;
}

void capture_names_end(struct capture_names *n)
{
    for (unsigned i = 1; i < CAPTURE_SOURCES; i++) {
        drop_nested(n, i);
    }
    if (n->scanner) {
        scanner_finish(n->scanner, &n->result);
    }
    g_mutex_lock(&n->members->lock);
    n->ended = true;
    g_mutex_unlock(&n->members->lock);
    if (n->words) {
        guest_words_finish(n->words, &n->told);
        n->words = NULL;
        add_told(&n->result, &n->told);
    }
    add_left_out(n, &n->result);
}
