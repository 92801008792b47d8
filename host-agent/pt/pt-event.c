/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's events of Intel PT: see pt-event.h
 */

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pt/pt-event.h"
#include "pt/pt-open-message.h"
#include "pt/pt-ring.h"
#include "util/agent-error.h"
#include "util/close.h"

/* What is wanted where a CPU has a choice: a PSB each 16 KiB, an MTC each 8 */
#define PSB_PERIOD  3
#define MTC_PERIOD  3

static bool put(const struct pt_host *h, struct perf_event_attr *attr,
                enum pt_host_field field, unsigned value)
{
    const struct pt_host_bits *b = &h->format[field];

    if (!b->n || (b->n < 32 && value >> b->n)) {
        return false;
    }
    attr->config |= (uint64_t)value << b->low;
    return true;
}

/* The value that is nearest to @wanted among those of which @possible has a
 * bit, the smaller one first; -1 if there is none */
static int nearest(uint32_t possible, unsigned wanted)
{
    uint32_t below = possible & ((2u << wanted) - 1);

    return !possible ? -1 : below ? 31 - __builtin_clz(below) :
           __builtin_ctz(possible);
}

static bool prepare_filter(const struct pt_host *h,
                           const struct pt_event_options *o,
                           struct pt_event_setup *setup, GError **error)
{
    size_t at = 0;

    if (o->n_ranges > MIN(h->filters, PT_EVENT_RANGES)) {
        return agent_fail(error, AGENT_ERROR_SYSTEM, "this host's CPU has %u "
                          "address filters, and %u are needed: name fewer "
                          "ranges", MIN(h->filters, PT_EVENT_RANGES),
                          o->n_ranges);
    }
    for (unsigned i = 0; i < o->n_ranges; i++) {
        const struct pt_event_range *r = &o->ranges[i];

        if (!r->size || r->size - 1 > UINT64_MAX - r->start) {
            return agent_fail(error, AGENT_ERROR_SYSTEM, "an address filter "
                              "needs at least one byte, and ends with the "
                              "last address");
        }
        at += (size_t)g_snprintf(setup->filter + at, sizeof(setup->filter) - at,
                                 "%sfilter %#" G_GINT64_MODIFIER "x/%#"
                                 G_GINT64_MODIFIER "x", i ? "," : "", r->start,
                                 r->size);
    }
    return true;
}

bool pt_event_prepare(const struct pt_host *h, const struct pt_event_options *o,
                      struct pt_event_setup *setup, GError **error)
{
    struct perf_event_attr *attr = &setup->attr;
    const char *fault = pt_host_fault(h);
    int mtc = nearest(h->mtc_periods, MTC_PERIOD);
    int psb = nearest(h->psb_periods, PSB_PERIOD);

    memset(setup, 0, sizeof(*setup));
    if (fault) {
        return agent_fail(error, AGENT_ERROR_SYSTEM, "%s", fault);
    }
    *attr = (struct perf_event_attr){
        .type = h->type,
        .size = sizeof(*attr),
        .disabled = 1,
        /* No exclude_kernel: without ring 0, PIP packets do not come, which
         * have CR3.  The driver looks at no exclude_host. */
        .exclude_hv = 1,
    };
    /* Without the first the driver takes the others for those of 4.1. */
    if (!put(h, attr, PT_HOST_PT, 1) || !put(h, attr, PT_HOST_BRANCH, 1) ||
        !put(h, attr, PT_HOST_TSC, 1)) {
        return agent_fail(error, AGENT_ERROR_SYSTEM, "the kernel's driver of "
                          "Intel PT cannot be asked for branches and times: "
                          "use a kernel since 5.0");
    }
    setup->live = o->live;
    setup->returns = o->returns || !put(h, attr, PT_HOST_NORETCOMP, 1);
    if (psb > 0) {
        put(h, attr, PT_HOST_PSB_PERIOD, (unsigned)psb);
    }
    if (h->mtc && mtc >= 0 && h->format[PT_HOST_MTC].n &&
        put(h, attr, PT_HOST_MTC_PERIOD, (unsigned)mtc)) {
        setup->mtc = put(h, attr, PT_HOST_MTC, 1);
        setup->mtc_shift = (unsigned)mtc;
    }
    if (o->cyc && (!h->psb_cyc || !put(h, attr, PT_HOST_CYC, 1))) {
        return agent_fail(error, AGENT_ERROR_SYSTEM, "this host's CPU or "
                          "kernel has no cycles with Intel PT: trace without "
                          "them");
    }
    setup->cyc = o->cyc;
    return prepare_filter(h, o, setup, error);
}

static bool fail_open(GError **error, pid_t thread, int reason)
{
    const char *why = g_strerror(reason);

    switch (reason) {
    case EACCES:
    case EPERM:
        why = "the kernel does not permit it: perf_event_paranoid, or the "
              "thread is another user's; it takes root, CAP_PERFMON (with "
              "Debian's kernel CAP_SYS_ADMIN if perf_event_paranoid is above "
              "2) and CAP_SYS_PTRACE";
        break;
    case EBUSY:
        why = "another one traces by Intel PT, or by what excludes it (perf "
              "record -e intel_pt, record btrace of gdb; branch records on "
              "older CPUs): end it";
        break;
    case ENOENT:
    case ENODEV:
    case EOPNOTSUPP:
        why = "the kernel has no events of this kind: see backtrail doctor";
        break;
    case EINVAL:
    case E2BIG:
        why = "the kernel does not know what it was asked for: see backtrail "
              "doctor, and report it";
        break;
    case ESRCH:
        why = "there is no such thread (any more)";
        break;
    case EMFILE:
    case ENFILE:
        why = "too many files are open: raise the limit (ulimit -n)";
        break;
    default:
        break;
    }
    return agent_fail(error, AGENT_ERROR_SYSTEM, "cannot trace thread %ld: %s",
                      (long)thread, why);
}

bool pt_event_open(struct pt_event *e, const struct pt_event_setup *setup,
                   pid_t thread, GError **error)
{
    struct perf_event_attr attr = setup->attr;
    /* 0 would be the caller, and -1 all threads. */
    long fd = thread > 0 ? syscall(SYS_perf_event_open, &attr, thread, -1, -1,
                                   PERF_FLAG_FD_CLOEXEC) : -1;

    if (fd < 0) {
        return fail_open(error, thread, thread > 0 ? errno : ESRCH);
    }
    if (*setup->filter &&
        ioctl((int)fd, PERF_EVENT_IOC_SET_FILTER, setup->filter)) {
        agent_fail(error, AGENT_ERROR_SYSTEM, "cannot trace thread %ld with "
                   "the address filter '%s': %s; trace without it",
                   (long)thread, setup->filter, g_strerror(errno));
        btrail_close((int)fd);
        return false;
    }
    *e = PT_EVENT_NONE;
    e->fd = (int)fd;
    return true;
}

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t data_size(const struct pt_event *e)
{
    return e->base_size - page_size();
}

static bool fail_map(GError **error, size_t size, int reason)
{
    const char *why = g_strerror(reason);

    switch (reason) {
    case EPERM:
    case EACCES:
    case EAGAIN:
        why = "it is more memory than this user may lock: make it smaller, "
              "raise kernel.perf_event_mlock_kb or ulimit -l, or use "
              "CAP_IPC_LOCK";
        break;
    case ENOMEM:
        why = "the host has no memory for it, which cannot be swapped: make it "
              "smaller";
        break;
    case EOPNOTSUPP:
        why = "events of this kind have no ring";
        break;
    case EINVAL:
        why = "the kernel does not give a ring of this size, or it has another "
              "one already";
        break;
    default:
        break;
    }
    return agent_fail(error, AGENT_ERROR_SYSTEM, "cannot map a ring of %zu "
                      "KiB: %s", size >> 10, why);
}

static void unmap(struct pt_event *e)
{
    if (e->aux) {
        munmap((void *)e->aux, e->aux_size);
    }
    if (e->page) {
        munmap(e->page, e->base_size);
    }
    e->aux = NULL;
    e->page = NULL;
    e->aux_size = e->base_size = 0;
}

bool pt_event_map(struct pt_event *e, size_t size, bool live, GError **error)
{
    void *base, *aux;

    if (size && (size < page_size() || size & (size - 1) ||
                 size > PT_RING_MAX)) {
        return agent_fail(error, AGENT_ERROR_SYSTEM, "a ring of %zu bytes "
                          "cannot be: its size is a power of 2, from a page "
                          "to 2 GiB", size);
    }
    e->live = live;
    e->base_size = (1 + (live ? PT_OPEN_LIVE_PAGES : PT_OPEN_DATA_PAGES)) *
                   page_size();
    base = mmap(NULL, e->base_size, PROT_READ | PROT_WRITE, MAP_SHARED, e->fd,
                0);
    if (base == MAP_FAILED) {
        return fail_map(error, e->base_size, errno);
    }
    e->page = base;
    if (!size) {
        return true;
    }
    e->page->aux_offset = e->base_size;
    e->page->aux_size = size;
    /* If it is not writable the kernel overwrites it, without an interrupt. */
    aux = mmap(NULL, size, PROT_READ | (live ? PROT_WRITE : 0), MAP_SHARED,
               e->fd, (off_t)e->base_size);
    if (aux == MAP_FAILED) {
        fail_map(error, size, errno);
        unmap(e);
        return false;
    }
    e->aux = aux;
    e->aux_size = size;
    return true;
}

bool pt_event_start(struct pt_event *e, GError **error)
{
    return !ioctl(e->fd, PERF_EVENT_IOC_ENABLE, 0) ||
           agent_error_errno(error, "cannot start Intel PT");
}

/* Copies from the records that the kernel writes, which go around. */
static void copy(const struct pt_event *e, uint64_t at, void *to, size_t n)
{
    const uint8_t *data = (const uint8_t *)e->page + page_size();
    size_t size = data_size(e);

    for (size_t i = 0; i < n; i++) {
        ((uint8_t *)to)[i] = data[(at + i) % size];
    }
}

/* What the kernel has said of the ring; when there is no more room for it, it
 * says no more. */
static void read_flags(struct pt_event *e)
{
    uint64_t head = __atomic_load_n(&e->page->data_head, __ATOMIC_ACQUIRE);
    uint64_t at = e->page->data_tail;

    while (at < head && head - at <= data_size(e)) {
        struct {
            struct perf_event_header header;
            uint64_t offset, size, flags;
        } r = { { 0 } };

        copy(e, at, &r.header, sizeof(r.header));
        if (r.header.size < sizeof(r.header) || r.header.size > head - at) {
            break;
        }
        if (r.header.type == PERF_RECORD_AUX && r.header.size >= sizeof(r)) {
            copy(e, at, &r, sizeof(r));
            e->flags |= r.flags;
        }
        at += r.header.size;
    }
    __atomic_store_n(&e->page->data_tail, head, __ATOMIC_RELEASE);
}

bool pt_event_stop(struct pt_event *e, GError **error)
{
    if (ioctl(e->fd, PERF_EVENT_IOC_DISABLE, 0)) {
        return agent_error_errno(error, "cannot stop Intel PT");
    }
    if (e->page && !e->live) {
        read_flags(e);
    }
    return true;
}

const char *pt_event_flaw(uint64_t flags)
{
    if (flags & PERF_AUX_FLAG_PARTIAL) {
        return "this host's CPU does not trace while KVM runs "
               "(IA32_VMX_MISC, bit 14, as on some Broadwells), or not all of "
               "the time: its guests can be traced where QEMU emulates them";
    }
    if (flags & PERF_AUX_FLAG_TRUNCATED) {
        return "the kernel has stopped tracing, as its ring was full: this is "
               "not a ring that is overwritten";
    }
    return NULL;
}

void pt_event_close(struct pt_event *e)
{
    unmap(e);
    btrail_close(e->fd);
    *e = PT_EVENT_NONE;
}
