/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What happens in the guest, as perf says: see events.h
 */

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "backtrail/names.h"

#include "batch.h"
#include "connector.h"
#include "events.h"
#include "functions.h"
#include "privileges.h"
#include "proc.h"

/* Of memory for each CPU: what anybody may have locked */
#define RING_PAGES      128
/* How often CPUs that were offline are tried again */
#define ONLINE_NS       UINT64_C(1000000000)
/* Of a record: its size has 16 bits. */
#define RECORD_MAX      (1u << 16)
/* A switch that takes longer is said to begin and to end; the host's
 * name-owners.c allows for shorter ones. */
#define SWITCH_NS       UINT64_C(20000)

/* What ends each record, by the attributes that are set */
struct sample_id {
    uint32_t pid;
    uint32_t tid;
    uint64_t ns;
    uint32_t cpu;
    uint32_t reserved;
};

struct event_ring {
    int fd;                     /* -1: the CPU is offline */
    struct perf_event_mmap_page *page;
    struct btrail_guest_switch *switches;
    uint32_t n;
    uint64_t left;              /* a task is to leave since then; 0: none is */
};

struct events {
    struct perf_event_attr attr;
    struct event_ring *rings;
    unsigned cpus;
    size_t page_size;
    bool switches;
    uint64_t tried_online;
    unsigned char *record;      /* one that wraps around */
    struct connector *connector; /* instead of rings */
    struct batch batch;
};

/* What a record is handled with */
struct pass {
    struct events *e;
    struct outbox *out;
    events_exec_fn *exec;
    void *opaque;
};

static unsigned count_cpus(void)
{
    long n = sysconf(_SC_NPROCESSORS_CONF);

    return n < 1 ? 1 : n > (long)BTRAIL_GUEST_CPUS_MAX ?
           BTRAIL_GUEST_CPUS_MAX : (unsigned)n;
}

/* Has user mode page tables of its own?  It can on CPUs that do not need it. */
static bool has_pti(void)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char *line = NULL;
    size_t size = 0;
    bool flags = false, pti = false;

    while (file && !flags && getline(&line, &size, file) > 0) {
        flags = !strncmp(line, "flags", 5);
        pti = flags && (strstr(line, " pti ") || strstr(line, " pti\n"));
    }
    free(line);
    if (file) {
        fclose(file);
    }
    return pti;
}

static int open_event(const struct perf_event_attr *attr, unsigned cpu)
{
    return (int)syscall(SYS_perf_event_open, attr, -1, (int)cpu, -1,
                        PERF_FLAG_FD_CLOEXEC);
}

/* Has one CPU followed; false if that cannot be. */
static bool open_ring(struct events *e, unsigned cpu)
{
    struct event_ring *r = &e->rings[cpu];
    void *memory;

    r->fd = open_event(&e->attr, cpu);
    if (r->fd < 0 && errno == EINVAL && e->attr.build_id) {
        /* Before Linux 5.12 */
        e->attr.build_id = 0;
        r->fd = open_event(&e->attr, cpu);
    }
    if (r->fd < 0) {
        return false;
    }
    memory = mmap(NULL, (RING_PAGES + 1) * e->page_size,
                  PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
    if (memory == MAP_FAILED) {
        close(r->fd);
        r->fd = -1;
        return false;
    }
    r->page = memory;
    return true;
}

bool events_permitted(void)
{
    const struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE, .size = sizeof(attr),
        .config = PERF_COUNT_SW_DUMMY, .context_switch = 1,
    };
    int fd = open_event(&attr, 0);
    bool denied = fd < 0 && (errno == EACCES || errno == EPERM);

    if (fd >= 0) {
        close(fd);
    }
    return !denied;
}

/* Tries CPUs that are not followed; returns whether any is. */
static bool open_rings(struct events *e)
{
    bool any = false;

    privileges_admin(true);
    for (unsigned i = 0; i < e->cpus; i++) {
        any |= e->rings[i].fd >= 0 || open_ring(e, i);
    }
    privileges_admin(false);
    e->tried_online = tsc_clock_ns();
    return any;
}

struct events *events_open(bool switches, uint32_t *has, uint32_t *cpus)
{
    struct events *e = calloc(1, sizeof(*e));

    if (!e) {
        return NULL;
    }
    e->cpus = count_cpus();
    e->page_size = (size_t)sysconf(_SC_PAGESIZE);
    e->switches = switches;
    e->attr = (struct perf_event_attr) {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof(e->attr),
        .config = PERF_COUNT_SW_DUMMY,
        .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU,
        .mmap = 1, .mmap2 = 1, .comm = 1, .comm_exec = 1, .task = 1,
        .build_id = 1, .sample_id_all = 1, .context_switch = switches,
        .use_clockid = 1, .clockid = CLOCK_MONOTONIC,
        .watermark = 1,
        .wakeup_watermark = (uint32_t)(RING_PAGES / 4 * e->page_size),
    };
    e->rings = calloc(e->cpus, sizeof(*e->rings));
    e->record = malloc(RECORD_MAX);
    *cpus = e->cpus;
    *has = (has_pti() ? BTRAIL_GUEST_HAS_PTI : 0) | BTRAIL_GUEST_HAS_EVENTS;
    for (unsigned i = 0; e->rings && i < e->cpus; i++) {
        e->rings[i].fd = -1;
        e->rings[i].switches = switches ? malloc(
            BTRAIL_GUEST_SWITCHES_MAX * sizeof(*e->rings[i].switches)) : NULL;
        e->switches &= e->rings[i].switches != NULL;
    }
    if (batch_init(&e->batch) && e->record && e->rings) {
        if (open_rings(e)) {
            *has |= e->switches ? BTRAIL_GUEST_HAS_SWITCHES : 0;
            return e;
        }
        e->connector = connector_open();
        if (e->connector) {
            return e;
        }
    }
    *has &= ~BTRAIL_GUEST_HAS_EVENTS;
    events_close(e);
    return NULL;
}

void events_close(struct events *e)
{
    for (unsigned i = 0; e && e->rings && i < e->cpus; i++) {
        if (e->rings[i].fd >= 0) {
            munmap(e->rings[i].page, (RING_PAGES + 1) * e->page_size);
            close(e->rings[i].fd);
        }
        free(e->rings[i].switches);
    }
    if (e) {
        connector_close(e->connector);
        batch_free(&e->batch);
        free(e->rings);
        free(e->record);
        free(e);
    }
}

unsigned events_fds(const struct events *e, int *fds, unsigned max)
{
    unsigned n = 0;

    if (e->connector && n < max) {
        fds[n++] = connector_fd(e->connector);
    }
    for (unsigned i = 0; i < e->cpus && n < max; i++) {
        if (e->rings[i].fd >= 0) {
            fds[n++] = e->rings[i].fd;
        }
    }
    return n;
}

static void add(struct pass *p, const struct batch_event *event,
                const char *first, size_t first_size, const void *second,
                size_t second_size)
{
    if (!batch_add(&p->e->batch, event,
                   (struct outbox_text) { first, (uint32_t)first_size },
                   (struct outbox_text) { second, (uint32_t)second_size })) {
        outbox_lost(p->out, BTRAIL_GUEST_LOST_EVENTS, 1);
    }
}

/* The bytes of a record between its header and the sample_id */
struct body {
    const unsigned char *data;
    size_t size;
};

/* A text at the end of a record, with a NUL or more after it */
static const char *text_at(const struct body *b, size_t at, size_t *size)
{
    *size = at < b->size ? strnlen((const char *)b->data + at, b->size - at) :
            0;
    return (const char *)b->data + at;
}

static void handle_mapping(struct pass *p, uint16_t misc, uint64_t ns,
                           const struct body *b)
{
    struct {
        uint32_t pid, tid;
        uint64_t start, size, offset;
        union {
            struct {
                uint32_t major, minor;
                uint64_t inode, generation;
            };
            struct {
                uint8_t id_size, reserved[3];
                uint8_t id[20];
            };
        };
        uint32_t access, flags;
    } r;
    struct batch_event event = { .ns = ns, .type = BTRAIL_GUEST_MAPPING,
                                 .size = sizeof(event.mapping) };
    struct btrail_guest_mapping *m = &event.mapping;
    uint8_t id[BTRAIL_GUEST_BUILD_ID_MAX];
    char path[BTRAIL_GUEST_PATH_MAX];
    const char *text;
    size_t size;

    if (b->size < sizeof(r)) {
        return;
    }
    memcpy(&r, b->data, sizeof(r));
    text = text_at(b, sizeof(r), &size);
    if (!r.size || r.start >> 63 || r.start + r.size > UINT64_C(1) << 63) {
        return;
    }
    /* Anonymous memory is called //anon. */
    size = size < sizeof(path) && strncmp(text, "//", 2) ? size : 0;
    memcpy(path, text, size);
    path[size] = 0;
    m->pid = r.pid;
    m->start = r.start;
    m->end = r.start + r.size;
    m->offset = *path == '/' ? r.offset : 0;
    m->flags = BTRAIL_MAPPING_EXEC |
               (r.access & PROT_READ ? BTRAIL_MAPPING_READ : 0) |
               (r.access & PROT_WRITE ? BTRAIL_MAPPING_WRITE : 0) |
               (r.flags & MAP_SHARED ? BTRAIL_MAPPING_SHARED : 0) |
               (*path == '/' ? BTRAIL_MAPPING_FILE : 0) |
               (proc_cut_deleted(path) ? BTRAIL_MAPPING_DELETED : 0);
    if (misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
        m->build_id_size = r.id_size <= sizeof(r.id) ? r.id_size : 0;
        memcpy(id, r.id, m->build_id_size);
    } else {
        m->build_id_size = proc_build_id(r.pid, path,
                                         r.major << 20 | r.minor, r.inode, id);
    }
    if (proc_is_anonymous(path)) {
        functions_watch(r.pid);
    }
    m->path_size = (uint32_t)strlen(path);
    add(p, &event, path, m->path_size, id, m->build_id_size);
}

static void handle_name(struct pass *p, uint16_t misc, uint64_t ns,
                        const struct body *b)
{
    struct batch_event event = { .ns = ns, .type = BTRAIL_GUEST_NAME,
                                 .size = sizeof(event.name) };
    uint32_t ids[2];
    const char *text;
    size_t size;

    if (b->size < sizeof(ids)) {
        return;
    }
    memcpy(ids, b->data, sizeof(ids));
    text = text_at(b, sizeof(ids), &size);
    size = size < BTRAIL_GUEST_COMM_MAX ? size : BTRAIL_GUEST_COMM_MAX;
    event.name.pid = ids[0];
    event.name.tid = ids[1];
    event.name.flags = misc & PERF_RECORD_MISC_COMM_EXEC ?
                       BTRAIL_GUEST_NAME_EXEC : 0;
    event.name.comm_size = (uint32_t)size;
    add(p, &event, text, size, NULL, 0);
    if (event.name.flags) {
        p->exec(p->opaque, ids[0]);
    }
}

static void handle_task(struct pass *p, uint32_t type, uint64_t ns,
                        const struct body *b)
{
    struct batch_event event = { .ns = ns };
    uint32_t ids[4];            /* pid, its parent, tid, its parent */

    if (b->size < sizeof(ids)) {
        return;
    }
    memcpy(ids, b->data, sizeof(ids));
    if (type == PERF_RECORD_FORK) {
        event.type = BTRAIL_GUEST_FORK;
        event.size = sizeof(event.fork);
        event.fork = (struct btrail_guest_fork) {
            .pid = ids[0], .parent = ids[1], .tid = ids[2],
            .parent_tid = ids[3],
        };
    } else {
        event.type = BTRAIL_GUEST_EXIT;
        event.size = sizeof(event.exit);
        event.exit = (struct btrail_guest_exit) { .pid = ids[0],
                                                  .tid = ids[2] };
    }
    add(p, &event, NULL, 0, NULL, 0);
}

static void add_switch(struct pass *p, struct event_ring *r, uint64_t ns,
                       uint32_t pid, uint32_t tid)
{
    if (r->n == BTRAIL_GUEST_SWITCHES_MAX) {
        outbox_lost(p->out, BTRAIL_GUEST_LOST_SWITCHES, 1);
    } else {
        r->switches[r->n++] = (struct btrail_guest_switch) {
            .time = ns, .pid = pid, .tid = tid,
        };
    }
}

/*
 * There are two records of a switch: before the kernel loads CR3, and after it.
 * Where the host has let others run in between, both are said.
 */
static void handle_switch(struct pass *p, struct event_ring *r, bool out,
                          const struct sample_id *id)
{
    if (out) {
        r->left = id->ns;
        return;
    }
    if (r->left && id->ns - r->left > SWITCH_NS) {
        add_switch(p, r, r->left, 0, 0);
    }
    r->left = 0;
    add_switch(p, r, id->ns, id->pid, id->tid);
}

static void handle_lost(struct pass *p, const struct body *b)
{
    uint64_t ids[2] = { 0 };    /* of the event; how many */

    if (b->size >= sizeof(ids)) {
        memcpy(ids, b->data, sizeof(ids));
    }
    outbox_lost(p->out, BTRAIL_GUEST_LOST_EVENTS, ids[1]);
    outbox_lost(p->out, BTRAIL_GUEST_LOST_SWITCHES, p->e->switches ? ids[1] :
                0);
}

static void handle_record(struct pass *p, struct event_ring *r,
                          const struct perf_event_header *h,
                          const struct sample_id *id)
{
    const struct body b = {
        (const unsigned char *)(h + 1),
        h->size - sizeof(*h) - sizeof(*id),
    };

    switch (h->type) {
    case PERF_RECORD_MMAP2:
        handle_mapping(p, h->misc, id->ns, &b);
        break;
    case PERF_RECORD_COMM:
        handle_name(p, h->misc, id->ns, &b);
        break;
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
        handle_task(p, h->type, id->ns, &b);
        break;
    case PERF_RECORD_SWITCH_CPU_WIDE:
        handle_switch(p, r, h->misc & PERF_RECORD_MISC_SWITCH_OUT, id);
        break;
    case PERF_RECORD_LOST:
        handle_lost(p, &b);
        break;
    default:
        break;
    }
}

/* Handles what a CPU has published, up to a time. */
static void read_ring(struct pass *p, struct event_ring *r, uint64_t until)
{
    uint64_t head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
    uint64_t tail = r->page->data_tail;
    size_t size = RING_PAGES * p->e->page_size;
    unsigned char *data = (unsigned char *)r->page + p->e->page_size;

    while (tail < head) {
        size_t at = (size_t)(tail % size);
        struct perf_event_header *h = (struct perf_event_header *)(data + at);
        struct sample_id id;

        /* Records are aligned to 8 bytes, as the header is long. */
        if (h->size < sizeof(*h) + sizeof(id) || h->size > head - tail) {
            tail = head;
            break;
        }
        if (h->size > size - at) {
            memcpy(p->e->record, h, size - at);
            memcpy(p->e->record + (size - at), data, h->size - (size - at));
            h = (struct perf_event_header *)p->e->record;
        }
        memcpy(&id, (unsigned char *)h + h->size - sizeof(id), sizeof(id));
        if (id.ns > until) {
            break;
        }
        handle_record(p, r, h, &id);
        tail += h->size;
    }
    __atomic_store_n(&r->page->data_tail, tail, __ATOMIC_RELEASE);
    if (r->left) {
        /* The end of this switch comes after UP_TO. */
        add_switch(p, r, r->left, 0, 0);
        r->left = 0;
    }
}

static void send_switches(struct events *e, const struct tsc_clock *clock,
                          struct outbox *out)
{
    for (unsigned i = 0; i < e->cpus; i++) {
        struct event_ring *r = &e->rings[i];
        struct btrail_guest_switches s = { .cpu = i, .n = r->n };

        for (uint32_t k = 0; k < r->n; k++) {
            r->switches[k].time = tsc_clock_at(clock, r->switches[k].time);
        }
        if (r->n && !outbox_put(out, BTRAIL_GUEST_SWITCHES, &s, sizeof(s),
                                (struct outbox_text) {
                                    r->switches, r->n * sizeof(*r->switches),
                                },
                                (struct outbox_text) { 0 },
                                OUTBOX_KEEP_SWITCHES)) {
            outbox_lost(out, BTRAIL_GUEST_LOST_SWITCHES, r->n);
        }
        r->n = 0;
    }
}

void events_send(struct events *e, struct tsc_clock *clock, struct outbox *out,
                 events_exec_fn *exec, void *opaque)
{
    /*
     * What a CPU publishes meanwhile is left for the next time, so that each
     * event is sent after all that were before it.
     */
    uint64_t until = tsc_clock_ns();
    struct pass p = { e, out, exec, opaque };
    struct btrail_guest_up_to up_to;

    if (e->connector) {
        connector_read(e->connector, &e->batch, out, exec, opaque);
    } else if (until - e->tried_online > ONLINE_NS) {
        open_rings(e);
    }
    for (unsigned i = 0; i < e->cpus; i++) {
        if (e->rings[i].fd >= 0) {
            read_ring(&p, &e->rings[i], until);
        }
    }
    tsc_clock_update(clock);
    batch_send(&e->batch, clock, out);
    send_switches(e, clock, out);
    up_to.time = tsc_clock_at(clock, until);
    outbox_report_lost(out, up_to.time);
    outbox_put(out, BTRAIL_GUEST_UP_TO, &up_to, sizeof(up_to),
               (struct outbox_text) { 0 }, (struct outbox_text) { 0 },
               OUTBOX_KEEP_EVENTS / 2);
}
