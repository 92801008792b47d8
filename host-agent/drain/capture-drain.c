/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Draining a producer's memory: see capture-drain.h
 */

#include "drain/capture-drain.h"
#include "util/clock.h"

/*
 * Where Linux has a kernel's image, at any distance from the beginning:
 * Documentation/arch/x86/x86_64/mm.rst
 */
#define IMAGES          UINT64_C(0xffffffff80000000)
#define IMAGES_SIZE     UINT64_C(0x40000000)

/* Slabs of a vCPU before it is the turn of the next one */
#define SLABS_PER_TURN      16
/* Items of code, likewise */
#define ITEMS_PER_TURN      64

/* Why are records missing that no GAP event explains? */
static uint16_t gap_reason(const struct capture_drain *d,
                           const struct capture_vcpu *v)
{
    if (capture_drain_overwrites(d)) {
        return BTRAIL_GAP_OVERWRITTEN;
    }
    if (!v->begun) {
        /* Another agent has drained them, or none. */
        return BTRAIL_GAP_AGENT_LOST;
    }
    return BTRAIL_GAP_CORRUPT;
}

/*
 * Requests snapshots and checks of sources, by bit, and waits for them if the
 * guest does, too.
 */
static void scan(struct capture_drain *d, unsigned snapshots, unsigned checks)
{
    for (unsigned i = 0; i < CAPTURE_SOURCES; i++) {
        struct scanner *scanner = capture_names_scanner(d->names, i);

        if (scanner && snapshots >> i & 1) {
            scanner_request(scanner);
        }
        if (scanner && checks >> i & 1) {
            scanner_request_check(scanner);
        }
    }
    for (unsigned i = 0; i < CAPTURE_SOURCES; i++) {
        struct scanner *scanner = capture_names_scanner(d->names, i);

        if (scanner && (snapshots | checks) >> i & 1 &&
            d->connection->header.policy == BTRAIL_OVERFLOW_PAUSE) {
            scanner_wait(scanner);
        }
    }
}

/*
 * Reports an address space that has run to its scanner.  Returns that, by bit,
 * if it should take a snapshot.
 */
static unsigned report_cr3(struct capture_drain *d,
                           const struct capture_vcpu *v, uint64_t cr3)
{
    unsigned source = capture_names_source(d->names, &v->kernel, cr3);
    struct scanner *scanner;

    if (source == CAPTURE_SOURCES) {
        return 0;
    }
    scanner = capture_names_scanner(d->names, source);
    if (v->kernel.known && !v->kernel.number) {
        scanner_report_stranger(scanner, cr3);
        return 0;
    }
    if (!v->kernel.known && !(cr3 & BTRAIL_CR3_NESTED)) {
        scanner_report_ran(scanner, cr3, v->time);
    }
    return scanner_report_cr3(scanner, cr3) ? 1u << source : 0;
}

/*
 * Reports that a vCPU runs what may be a kernel that boots: with a CR3, at an
 * address of the last 2 GB without modules, as no known kernel does.
 */
static void report_image(struct capture_drain *d, const struct capture_vcpu *v,
                         uint64_t cr3, uint64_t address)
{
    struct scanner *scanner = capture_names_scanner(d->names, 0);

    if (scanner && !v->kernel.nested && !v->kernel.number &&
        address - IMAGES < IMAGES_SIZE) {
        scanner_report_image(scanner, cr3);
    }
}

/* Reports the address spaces that have run to the scanner. */
static void report_cr3s(struct capture_drain *d, struct capture_vcpu *v,
                        const struct btrail_slab *slab)
{
    uint64_t cr3 = slab->cr3, at = slab->first_index;
    unsigned new = 0;

    /* An address space that has made no record need not be known. */
    for (size_t i = 0; i < slab->n_events; i++) {
        const struct btrail_event *e = &slab->events[i];

        if (e->index > at) {
            new |= report_cr3(d, v, cr3);
            at = e->index;
        }
        if (e->type == BTRAIL_EVENT_CR3) {
            cr3 = e->data[0];
        } else if (e->type == BTRAIL_EVENT_KERNEL) {
            btrail_event_kernel(e, &v->kernel);
            v->nested_root = v->kernel.nested ? v->kernel.nested_root :
                             v->nested_root;
        } else if (e->type == BTRAIL_EVENT_TIME) {
            v->time = e->data[0];
        }
    }
    if (slab->n_records) {
        new |= report_cr3(d, v, cr3);
        report_image(d, v, cr3, slab->records[slab->n_records - 1].to);
    }
    scan(d, new, 0);
}

/* Reports code that runs first to the scanner that may not know it. */
static void report_code(struct capture_drain *d, unsigned vcpu,
                        const struct btrail_code_item *item)
{
    struct btrail_kernel kernel = d->vcpus[vcpu].kernel;
    unsigned source;

    /* Items come beside events: that of a nested guest is the last one's. */
    kernel.nested = item->cr3 & BTRAIL_CR3_NESTED;
    kernel.nested_root = d->vcpus[vcpu].nested_root;
    source = capture_names_source(d->names, &kernel, item->cr3);
    if (source == CAPTURE_SOURCES) {
        return;
    }
    if (item->linear >> 63) {
        d->new_kernel_code |= (unsigned)scanner_report_kernel_code(
            capture_names_scanner(d->names, source), item->linear) << source;
    } else {
        d->new_code |= (unsigned)scanner_report_code(
            capture_names_scanner(d->names, source), item->cr3,
            item->linear) << source;
    }
}

/* Hands an item of code on; the scanner learns of code that runs first. */
static void got_code(struct capture_drain *d, unsigned vcpu, uint64_t number,
                     const struct btrail_code_item *item, const uint8_t *page)
{
    if (d->names->scanner && item->type == BTRAIL_CODE_PAGE) {
        report_code(d, vcpu, item);
    }
    capture_names_code(d->names, vcpu, item);
    if (d->members->in_step) {
        entries_code(d->names->entries, item, page);
    }
    for (unsigned i = 0; i < d->members->sessions->len; i++) {
        struct session *s = capture_member(d->members, i);

        if (!session_over(s)) {
            session_code(s, vcpu, number, item, page);
        }
    }
}

/* One snapshot and one check for all code that was handed on */
static void scan_new_code(struct capture_drain *d)
{
    scan(d, d->new_code, d->new_kernel_code);
    d->new_code = d->new_kernel_code = 0;
}

void capture_drain_init(struct capture_drain *d,
                        struct drain_connection *connection,
                        struct capture_members *members,
                        struct capture_names *names)
{
    const struct btrail_shm_header *h = &connection->header;

    d->connection = connection;
    d->members = members;
    d->names = names;
    d->vcpus = g_new0(struct capture_vcpu, h->vcpus);
    d->events = g_new(struct btrail_event, h->events_per_slab);
    for (unsigned i = 0; h->code_items && i < h->vcpus; i++) {
        d->vcpus[i].code = drain_connection_code_tail(connection, i);
    }
}

void capture_drain_clear(struct capture_drain *d)
{
    drain_connection_free(d->connection);
    g_free(d->vcpus);
    g_free(d->events);
}

bool capture_drain_is_traced(const struct capture_drain *d, unsigned vcpu)
{
    return d->vcpus[vcpu].begun ||
           drain_connection_state(d->connection, vcpu) != BTRAIL_VCPU_ABSENT;
}

bool capture_drain_was_empty(const struct capture_drain *d, unsigned vcpu,
                             uint64_t time)
{
    const struct capture_vcpu *v = &d->vcpus[vcpu];
    uint32_t state = drain_connection_state(d->connection, vcpu);

    /* The producer counts a wait before it says that it is over. */
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return v->empty_at >= time && state != BTRAIL_VCPU_WAITING &&
           state != BTRAIL_VCPU_LOSING && v->tail >= v->resumed &&
           drain_connection_paused_ns(d->connection, vcpu) == v->paused_ns;
}

uint64_t capture_drain_done(const struct capture_drain *d, unsigned vcpu)
{
    return d->vcpus[vcpu].done;
}

bool capture_drain_heads_moved(const struct capture_drain *d)
{
    for (unsigned i = 0; i < d->connection->header.vcpus; i++) {
        if (drain_connection_head(d->connection, i) != d->vcpus[i].tail) {
            return true;
        }
    }
    return false;
}

/* Drains items of code of a vCPU: some, or all; @n grows by how many. */
static bool drain_items(struct capture_drain *d, unsigned vcpu, bool all,
                        unsigned *n, GError **error)
{
    struct drain_connection *conn = d->connection;
    uint64_t head = drain_connection_code_head(conn, vcpu);
    uint64_t *tail = &d->vcpus[vcpu].code;
    uint64_t stop = head;

    if (head == *tail) {
        return true;
    }
    if (head < *tail || head - *tail > conn->header.code_items) {
        g_set_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL,
                    "the producer broke the protocol: vCPU %u has published %"
                    G_GUINT64_FORMAT " items of code, and %" G_GUINT64_FORMAT
                    " of them were drained", vcpu, head, *tail);
        return false;
    }
    if (!all && head - *tail > ITEMS_PER_TURN) {
        stop = *tail + ITEMS_PER_TURN;
    }
    for (; *tail != stop; (*tail)++, (*n)++) {
        struct btrail_code_item item;
        uint8_t page[BTRAIL_CODE_PAGE_SIZE];

        if (!drain_connection_code_item(conn, vcpu, *tail, &item, page,
                                        error)) {
            return false;
        }
        got_code(d, vcpu, *tail, &item, page);
    }
    drain_connection_code_release(conn, vcpu, *tail);
    return true;
}

static bool lacks_code(const struct capture_drain *d)
{
    for (unsigned i = 0; i < d->members->sessions->len; i++) {
        if (session_lacks_code(capture_member(d->members, i))) {
            return true;
        }
    }
    return false;
}

/* Drains the code that the next slab of a vCPU executes. */
static bool drain_code_of_slab(struct capture_drain *d, unsigned vcpu,
                               GError **error)
{
    unsigned items = 0;

    if (!drain_items(d, vcpu, true, &items, error)) {
        return false;
    }
    /* The others' items have contents that those of this vCPU refer to. */
    for (unsigned i = 0; lacks_code(d) &&
         i < d->connection->header.vcpus; i++) {
        if (!drain_items(d, i, true, &items, error)) {
            return false;
        }
    }
    return true;
}

static bool bad_slab(uint64_t number, unsigned vcpu, GError **error)
{
    g_set_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL,
                "the producer broke the protocol: in slab %" G_GUINT64_FORMAT
                " of vCPU %u, %s", number, vcpu,
                btrail_strerror(-BTRAIL_ERR_SLAB));
    return false;
}

/*
 * Drains a slab.  This is where it is checked; its records stay in the shared
 * memory, where the producer may still change them.
 */
static bool drain_slab(struct capture_drain *d, unsigned i, GError **error)
{
    struct capture_vcpu *v = &d->vcpus[i];
    uint16_t reason = gap_reason(d, v);
    struct btrail_checked_slab checked;
    struct btrail_slab slab;
    bool several = d->members->sessions->len > 1;
    unsigned k;

    if (!drain_connection_slab(d->connection, i, v->tail, &slab, d->events,
                               error)) {
        return false;
    }
    if (!btrail_slab_check(&slab, v->index, &checked)) {
        return bad_slab(v->tail, i, error);
    }
    if (d->names->scanner) {
        report_cr3s(d, v, &slab);
    }
    if (d->members->in_step) {
        if (d->connection->header.code_items &&
            !drain_code_of_slab(d, i, error)) {
            return false;
        }
        scan_new_code(d);
    }
    capture_names_slab(d->names, i, &slab);
    for (k = 0; k < d->members->sessions->len; k++) {
        struct session *s = capture_member(d->members, k);
        uint64_t begin = several ? clock_cpu_ns() : 0;

        if (!session_over(s) &&
            session_slab(s, i, &checked, v->index, reason)) {
            return bad_slab(v->tail, i, error);
        }
        if (several) {
            session_spent(s, clock_cpu_ns() - begin);
        }
    }
    v->begun |= slab.first_index || slab.n_records;
    v->ended = slab.n_events &&
               slab.events[slab.n_events - 1].type == BTRAIL_EVENT_END;
    v->index = checked.end;
    d->drained = true;
    __atomic_fetch_add(&d->records, slab.n_records, __ATOMIC_RELAXED);
    return true;
}

/* Notices that a vCPU has waited: the slab in progress then may say so. */
static void notice_wait(struct capture_drain *d, unsigned i)
{
    struct capture_vcpu *v = &d->vcpus[i];
    uint64_t paused_ns = drain_connection_paused_ns(d->connection, i);

    if (paused_ns != v->paused_ns) {
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        v->paused_ns = paused_ns;
        v->resumed = drain_connection_head(d->connection, i) + 1;
    }
}

/*
 * Up to when is all published that the vCPU did?  @now: an earlier time.  To be
 * called before its head is read.
 */
static uint64_t published_until(const struct capture_drain *d, unsigned i,
                                uint64_t now)
{
    uint64_t flushed;

    switch (drain_connection_state(d->connection, i)) {
    case BTRAIL_VCPU_ABSENT:
    case BTRAIL_VCPU_ENDED:
        /* There was nothing by then, and there is nothing any more. */
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        return now;
    default:
        flushed = drain_connection_flushed(d->connection, i);
        return MIN(flushed, now);
    }
}

/* Drains slabs of a vCPU, at most @max; @n gets how many. */
static bool drain_slabs(struct capture_drain *d, unsigned i, unsigned max,
                        unsigned *n, GError **error)
{
    struct capture_vcpu *v = &d->vcpus[i];
    uint32_t slabs = d->connection->header.slabs;
    uint64_t now = clock_ns();
    uint64_t until = published_until(d, i, now);
    uint64_t head;

    notice_wait(d, i);
    head = drain_connection_head(d->connection, i);
    *n = 0;
    if (!v->started) {
        v->tail = drain_connection_tail(d->connection, i);
        v->started = true;
    }
    if (capture_drain_overwrites(d) && head >= v->tail) {
        /*
         * The oldest slab is whole if the producer has stopped in order;
         * otherwise it may have begun to fill it again.
         */
        uint64_t keep = d->ended ? slabs : slabs - 1;

        if (head - v->tail > keep) {
            v->tail = head - keep;
        }
    }
    if (head < v->tail || head - v->tail > slabs) {
        g_set_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL,
                    "the producer broke the protocol: vCPU %u has published %"
                    G_GUINT64_FORMAT " slabs, and %" G_GUINT64_FORMAT
                    " of them were drained", i, head, v->tail);
        return false;
    }
    while (v->tail != head && *n < max) {
        if (!drain_slab(d, i, error)) {
            return false;
        }
        v->tail++;
        (*n)++;
        drain_connection_release(d->connection, i, v->tail);
    }
    if (v->tail == head) {
        v->empty_at = now;
        v->done = MAX(v->done, until);
    }
    return true;
}

bool capture_drain_slabs(struct capture_drain *d, bool all, unsigned *n,
                         GError **error)
{
    unsigned i, k;

    for (i = 0; i < d->connection->header.vcpus; i++) {
        if (!drain_slabs(d, i, all ? UINT_MAX : SLABS_PER_TURN, &k, error)) {
            return false;
        }
        *n += k;
    }
    return true;
}

bool capture_drain_little(struct capture_drain *d, unsigned *n, GError **error)
{
    unsigned vcpus = d->connection->header.vcpus;

    for (unsigned i = 0; i < vcpus && !*n; i++) {
        d->next_vcpu = (d->next_vcpu + 1) % vcpus;
        if (!drain_slabs(d, d->next_vcpu, 1, n, error)) {
            return false;
        }
    }
    return *n || capture_drain_code(d, false, n, error);
}

bool capture_drain_code(struct capture_drain *d, bool all, unsigned *n,
                        GError **error)
{
    const struct btrail_shm_header *h = &d->connection->header;

    for (unsigned i = 0; h->code_items && i < h->vcpus; i++) {
        if (!drain_items(d, i, all, n, error)) {
            return false;
        }
    }
    scan_new_code(d);
    return true;
}

bool capture_drain_code_urgent(const struct capture_drain *d)
{
    const struct btrail_shm_header *h = &d->connection->header;

    for (unsigned i = 0; h->code_items && i < h->vcpus; i++) {
        if (drain_connection_code_head(d->connection, i) - d->vcpus[i].code >
            h->code_items / 4) {
            return true;
        }
    }
    return false;
}

void capture_drain_end_code(struct capture_drain *d)
{
    const struct btrail_shm_header *h = &d->connection->header;

    for (unsigned i = 0; h->code_items && i < h->vcpus; i++) {
        uint64_t from = drain_connection_code_lost_from(d->connection, i);

        if (d->vcpus[i].code && from != BTRAIL_CODE_NONE_LOST) {
            const struct btrail_code_item item = {
                .type = BTRAIL_CODE_LOST, .index = UINT64_MAX,
                .linear = from,
            };

            got_code(d, i, d->vcpus[i].code, &item, NULL);
        }
    }
}
