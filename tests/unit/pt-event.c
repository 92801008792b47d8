/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test events of Intel PT: what is asked for on hosts that are made up, real
 * events of a PMU that each host has, and rings that are a file
 */

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pt/aux-ring.h"
#include "pt/pt-event.h"
#include "pt/pt-ring.h"

#define RING    (64u << 10)
#define NOBODY  65534

/* A Skylake; fields are where Linux 6.12 has them. */
static struct pt_host host(void)
{
    return (struct pt_host){
        .there = true, .psb_cyc = true, .mtc = true, .type = 8,
        .format = {
            [PT_HOST_PT] = { 0, 1 }, [PT_HOST_BRANCH] = { 13, 1 },
            [PT_HOST_TSC] = { 10, 1 }, [PT_HOST_NORETCOMP] = { 11, 1 },
            [PT_HOST_PSB_PERIOD] = { 24, 4 }, [PT_HOST_MTC] = { 9, 1 },
            [PT_HOST_MTC_PERIOD] = { 14, 4 }, [PT_HOST_CYC] = { 1, 1 },
            [PT_HOST_CYC_THRESH] = { 19, 4 },
        },
        .psb_periods = 0x3f, .mtc_periods = 0x249, .cycle_thresholds = 0x3fff,
        .filters = 2, .family = 6, .model = 0x5e,
        .words = g_ptr_array_new(),
    };
}

/* By RTIT_CTL of the SDM: TSCEn, DisRETC, BranchEn; bit 0 is the driver's */
#define USUAL   (1u | 1u << 10 | 1u << 11 | 1u << 13)
#define PSB_3   (3u << 24)
#define MTC_3   (1u << 9 | 3u << 14)

static void check(struct pt_host *h, const struct pt_event_options *o,
                  uint64_t config)
{
    struct pt_event_setup s;
    GError *error = NULL;

    g_assert_true(pt_event_prepare(h, o, &s, &error));
    g_assert_no_error(error);
    g_assert_cmphex(s.attr.config, ==, config);
    g_assert_cmpuint(s.attr.type, ==, 8);
    g_assert_cmpuint(s.attr.size, ==, sizeof(s.attr));
    g_assert_true(s.attr.disabled && s.attr.exclude_hv);
    g_assert_false(s.attr.exclude_kernel || s.attr.exclude_user ||
                   s.attr.inherit || s.attr.sample_type);
    g_assert_cmpint(s.mtc, ==, !!(config & 1u << 9));
    g_assert_cmpint(s.cyc, ==, !!(config & 1u << 1));
    g_assert_cmpint(s.returns, ==, !(config & 1u << 11));
}

static void check_refused(struct pt_host *h, const struct pt_event_options *o,
                          const char *why)
{
    g_autoptr(GError) error = NULL;
    struct pt_event_setup s;

    g_assert_false(pt_event_prepare(h, o, &s, &error));
    g_test_message("%s", error->message);
    g_assert_nonnull(strstr(error->message, why));
}

static void test_config(void)
{
    struct pt_event_options o = { 0 };
    struct pt_host h = host();

    check(&h, &o, USUAL | PSB_3 | MTC_3);
    o.returns = true;
    check(&h, &o, (USUAL | PSB_3 | MTC_3) & ~(1u << 11));
    o.returns = false;
    o.cyc = true;
    check(&h, &o, USUAL | PSB_3 | MTC_3 | 1u << 1);
    h.psb_cyc = false;
    h.psb_periods = 0;
    check_refused(&h, &o, "cycles");
    o.cyc = false;
    check(&h, &o, USUAL | MTC_3);
    /* SKZ84, or a CPU that is not known */
    h.mtc = false;
    check(&h, &o, USUAL);
    g_ptr_array_free(h.words, TRUE);
}

static void test_periods(void)
{
    static const struct {
        uint32_t possible;
        unsigned gives;
    } rows[] = {
        { 0x3f, 3 }, { 0x7, 2 }, { 0x1, 0 }, { 0xfff0, 4 }, { 0xffff, 3 },
        { 0x8000, 15 }, { 0x22, 1 }, { 0x8, 3 },
    };
    const struct pt_event_options o = { 0 };
    struct pt_host h = host();

    for (unsigned i = 0; i < G_N_ELEMENTS(rows); i++) {
        struct pt_event_setup s;

        h.psb_periods = h.mtc_periods = rows[i].possible;
        check(&h, &o, USUAL | 1u << 9 | rows[i].gives << 24 |
              rows[i].gives << 14);
        g_assert_true(pt_event_prepare(&h, &o, &s, NULL));
        g_assert_cmpuint(s.mtc_shift, ==, rows[i].gives);
    }
    g_ptr_array_free(h.words, TRUE);
}

/* Fields are where the driver says. */
static void test_format(void)
{
    const struct pt_event_options o = { 0 };
    struct pt_host h = host();

    h.format[PT_HOST_BRANCH] = (struct pt_host_bits){ 40, 1 };
    h.format[PT_HOST_PSB_PERIOD] = (struct pt_host_bits){ 60, 4 };
    h.format[PT_HOST_MTC] = (struct pt_host_bits){ 50, 1 };
    {
        struct pt_event_setup s;

        g_assert_true(pt_event_prepare(&h, &o, &s, NULL));
        g_assert_cmphex(s.attr.config, ==, 1u | 1u << 10 | 1u << 11 | 3u << 14 |
                        UINT64_C(1) << 40 | UINT64_C(3) << 60 |
                        UINT64_C(1) << 50);
    }
    g_ptr_array_free(h.words, TRUE);
    /* What has no place, or not enough, is not asked for. */
    h = host();
    h.format[PT_HOST_MTC_PERIOD].n = 0;
    check(&h, &o, USUAL | PSB_3);
    h.format[PT_HOST_PSB_PERIOD].n = 1;
    check(&h, &o, USUAL);
    h.format[PT_HOST_NORETCOMP].n = 0;
    check(&h, &o, USUAL & ~(1u << 11));
    h.format[PT_HOST_BRANCH].n = 0;
    check_refused(&h, &o, "since 5.0");
    g_ptr_array_free(h.words, TRUE);
}

static void test_fault(void)
{
    const struct pt_event_options o = { 0 };
    struct pt_host_word word = { "pt", true, (char *)"there is none" };
    struct pt_host h = host();

    g_ptr_array_add(h.words, &word);
    check_refused(&h, &o, "there is none");
    word.blocks = false;
    check(&h, &o, USUAL | PSB_3 | MTC_3);
    g_ptr_array_free(h.words, TRUE);
}

static void test_filter(void)
{
    struct pt_event_options o = {
        .ranges = {
            { UINT64_C(0xffffffff81000000), 0x1000000 },
            { 0, 1 },
        },
        .n_ranges = 1,
    };
    struct pt_host h = host();
    struct pt_event_setup s;

    g_assert_true(pt_event_prepare(&h, &o, &s, NULL));
    g_assert_cmpstr(s.filter, ==, "filter 0xffffffff81000000/0x1000000");
    o.n_ranges = 2;
    g_assert_true(pt_event_prepare(&h, &o, &s, NULL));
    g_assert_cmpstr(s.filter, ==, "filter 0xffffffff81000000/0x1000000,"
                    "filter 0/0x1");
    h.filters = 1;
    check_refused(&h, &o, "1 address filters, and 2");
    /* As many as there can be, of the longest */
    h.filters = 64;
    o.n_ranges = PT_EVENT_RANGES;
    for (unsigned i = 0; i < PT_EVENT_RANGES; i++) {
        o.ranges[i].start = UINT64_C(1) << 63;
        o.ranges[i].size = UINT64_C(1) << 63;
    }
    g_assert_true(pt_event_prepare(&h, &o, &s, NULL));
    g_assert_cmpuint(strlen(s.filter), <, sizeof(s.filter) - 1);
    g_assert_true(g_str_has_suffix(s.filter, "/0x8000000000000000"));
    o.ranges[3].size++;
    check_refused(&h, &o, "last address");
    o.ranges[3].size = 0;
    check_refused(&h, &o, "at least one");
    o.n_ranges = PT_EVENT_RANGES + 1;
    check_refused(&h, &o, "8 address filters");
    g_ptr_array_free(h.words, TRUE);
}

/* The clock, which counts while a thread runs: each host has it. */
static struct pt_event_setup clock_setup(void)
{
    return (struct pt_event_setup){
        .attr = {
            .type = PERF_TYPE_SOFTWARE, .size = sizeof(struct perf_event_attr),
            .config = PERF_COUNT_SW_TASK_CLOCK, .disabled = 1,
            .exclude_kernel = geteuid() != 0,
        },
    };
}

static uint64_t count(const struct pt_event *e)
{
    uint64_t value;

    g_assert_cmpint(read(e->fd, &value, sizeof(value)), ==, sizeof(value));
    return value;
}

static void burn(void)
{
    clock_t end = clock() + CLOCKS_PER_SEC / 100;

    while (clock() < end) {
    }
}

/* Opens one of this thread; false, and skips the test, where none can be. */
static bool open_own(struct pt_event *e)
{
    struct pt_event_setup s = clock_setup();
    g_autoptr(GError) error = NULL;

    *e = PT_EVENT_NONE;
    if (!pt_event_open(e, &s, getpid(), &error)) {
        g_test_skip(error->message);
        return false;
    }
    return true;
}

static void test_real(void)
{
    g_autoptr(GError) error = NULL;
    struct pt_event e;
    uint64_t before;

    if (!open_own(&e)) {
        return;
    }
    burn();
    g_assert_cmpuint(count(&e), ==, 0);
    g_assert_true(pt_event_map(&e, 0, false, &error));
    g_assert_nonnull(e.page);
    g_assert_true(pt_event_start(&e, &error));
    burn();
    g_assert_true(pt_event_stop(&e, &error));
    before = count(&e);
    g_assert_cmpuint(before, >, 0);
    burn();
    g_assert_cmpuint(count(&e), ==, before);
    g_assert_cmpuint(e.flags, ==, 0);
    pt_event_close(&e);
    g_assert_cmpint(e.fd, ==, -1);
    g_assert_null(e.page);
    pt_event_close(&e);
    g_assert_no_error(error);
}

static void check_map(struct pt_event *e, size_t size, const char *why)
{
    g_autoptr(GError) error = NULL;

    g_assert_false(pt_event_map(e, size, false, &error));
    g_test_message("%s", error->message);
    g_assert_nonnull(strstr(error->message, why));
    g_assert_true(!e->page && !e->aux && !e->aux_size);
}

static void test_no_ring(void)
{
    struct pt_event e;

    if (!open_own(&e)) {
        return;
    }
    check_map(&e, RING, "no ring");
    check_map(&e, RING + 1, "power of 2");
    check_map(&e, 2048, "power of 2");
    check_map(&e, (size_t)PT_RING_MAX * 2, "power of 2");
    pt_event_close(&e);
    e = PT_EVENT_NONE;
    check_map(&e, RING, g_strerror(EBADF));
}

static void check_open(const struct pt_event_setup *s, pid_t thread,
                       const char *why)
{
    struct pt_event e = PT_EVENT_NONE;
    g_autoptr(GError) error = NULL;

    g_assert_false(pt_event_open(&e, s, thread, &error));
    g_test_message("%s", error->message);
    g_assert_nonnull(strstr(error->message, why));
    g_assert_cmpint(e.fd, ==, -1);
}

/* In a process that ends */
static void apart(void (*work)(void *opaque), void *opaque)
{
    pid_t child = fork();
    int status;

    g_assert_cmpint(child, >=, 0);
    if (!child) {
        work(opaque);
        _exit(0);
    }
    g_assert_cmpint(waitpid(child, &status, 0), ==, child);
    g_assert_cmpint(status, ==, 0);
}

static void become_nobody(void)
{
    struct rlimit none = { 0, 0 };

    g_assert_cmpint(setrlimit(RLIMIT_MEMLOCK, &none), ==, 0);
    g_assert_cmpint(setresgid(NOBODY, NOBODY, NOBODY), ==, 0);
    g_assert_cmpint(setresuid(NOBODY, NOBODY, NOBODY), ==, 0);
}

static void foreign_thread(void *opaque)
{
    struct pt_event_setup s = clock_setup();

    s.attr.exclude_kernel = 1;
    become_nobody();
    check_open(&s, getppid(), "does not permit");
}

static void no_files(void *opaque)
{
    struct pt_event_setup s = clock_setup();
    struct rlimit few = { 0, 0 };

    g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &few), ==, 0);
    check_open(&s, getpid(), "ulimit -n");
}

static void test_errors(void)
{
    struct pt_event_setup s = clock_setup();
    struct pt_event e;

    if (!open_own(&e)) {
        return;
    }
    pt_event_close(&e);
    check_open(&s, 0, "no such thread");
    check_open(&s, -1, "no such thread");
    check_open(&s, INT32_MAX, "no such thread");
    strcpy(s.filter, "filter 0x1000/0x1000");
    check_open(&s, getpid(), "address filter 'filter 0x1000/0x1000'");
    s = clock_setup();
    s.attr.type = INT32_MAX;
    check_open(&s, getpid(), "no events of this kind");
    s = clock_setup();
    s.attr.sample_type = UINT64_MAX;
    check_open(&s, getpid(), "does not know");
    apart(no_files, NULL);
    if (geteuid()) {
        g_test_skip("only root can be another user");
        return;
    }
    apart(foreign_thread, NULL);
}

/*
 * What is mapped already is mapped again by one who has no rights, and no room
 * for locked memory: kernel/events/core.c counts it once.
 */
static void map_again(void *opaque)
{
    struct pt_event *mapped = opaque, again = PT_EVENT_NONE;
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE, .size = sizeof(attr),
        .config = PERF_COUNT_SW_TASK_CLOCK, .exclude_kernel = 1,
    };
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    g_autoptr(GError) error = NULL;
    unsigned n = 0;

    become_nobody();
    /* Use up what a user may have. */
    for (size_t pages = 64; pages; pages /= 2) {
        int fd = -1;

        do {
            fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
            g_assert_cmpint(fd, >=, 0);
            n++;
        } while (n < 10000 &&
                 mmap(NULL, (1 + pages) * page, PROT_READ | PROT_WRITE,
                      MAP_SHARED, fd, 0) != MAP_FAILED);
        g_assert_cmpint(errno, ==, EPERM);
        again.fd = fd;
    }
    check_map(&again, 0, "may lock");
    again.fd = mapped->fd;
    g_assert_true(pt_event_map(&again, 0, false, &error));
    g_assert_true(pt_event_start(&again, &error));
    g_assert_true(pt_event_stop(&again, &error));
    g_assert_no_error(error);
}

static void test_again(void)
{
    g_autofree char *text = NULL;
    struct pt_event e;

    if (geteuid() ||
        !g_file_get_contents("/proc/sys/kernel/perf_event_paranoid", &text,
                             NULL, NULL) || atoi(text) < 0 || atoi(text) > 2) {
        g_test_skip("it takes root, and a perf_event_paranoid of 0 to 2");
        return;
    }
    if (!open_own(&e)) {
        return;
    }
    g_assert_true(pt_event_map(&e, 0, false, NULL));
    apart(map_again, &e);
    pt_event_close(&e);
}

/* A file is mapped as an event is. */
static void test_mock_ring(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct pt_event e = PT_EVENT_NONE;
    g_autoptr(GError) error = NULL;
    struct pt_ring_bytes bytes;

    e.fd = memfd_create("event", MFD_CLOEXEC);
    g_assert_cmpint(ftruncate(e.fd, (off_t)(2 * page + RING)), ==, 0);
    g_assert_cmpint(pwrite(e.fd, "oldest", 6, (off_t)(2 * page + 100)), ==, 6);
    g_assert_cmpint(pwrite(e.fd, "newest", 6, (off_t)(2 * page + 94)), ==, 6);
    g_assert_true(pt_event_map(&e, RING, false, &error));
    g_assert_cmpuint(e.page->aux_offset, ==, 2 * page);
    g_assert_cmpuint(e.page->aux_size, ==, RING);
    g_assert_cmpuint(e.aux_size, ==, RING);
    e.page->aux_head = 100;
    g_assert_true(pt_ring_freeze(e.page, e.aux, e.aux_size, &bytes));
    g_assert_true(bytes.wrapped);
    g_assert_cmpmem(bytes.bytes[0], 6, "oldest", 6);
    g_assert_cmpmem(bytes.bytes[1] + bytes.size[1] - 6, 6, "newest", 6);
    g_assert_false(pt_event_start(&e, &error));
    g_assert_nonnull(strstr(error->message, "cannot start Intel PT"));
    g_clear_error(&error);
    g_assert_false(pt_event_stop(&e, &error));
    pt_event_close(&e);
}

/* One that is read while it fills has more room for records. */
static void test_live_ring(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct pt_event e = PT_EVENT_NONE;
    g_autoptr(GError) error = NULL;
    struct aux_ring r;

    e.fd = memfd_create("event", MFD_CLOEXEC);
    g_assert_cmpint(ftruncate(e.fd, (off_t)(65 * page + RING)), ==, 0);
    g_assert_true(pt_event_map(&e, RING, true, &error));
    g_assert_cmpuint(e.base_size, ==, 65 * page);
    g_assert_cmpuint(e.page->aux_offset, ==, 65 * page);
    /* The kernel writes these. */
    e.page->data_offset = page;
    e.page->data_size = 64 * page;
    g_assert_true(aux_ring_init(&r, e.page, e.base_size, e.aux, e.aux_size, 1));
    g_assert_cmpuint(aux_ring_waiting(&r), ==, 0);
    aux_ring_clear(&r);
    e.page->data_size *= 2;
    g_assert_false(aux_ring_init(&r, e.page, e.base_size, e.aux, e.aux_size,
                                 1));
    aux_ring_clear(&r);
    pt_event_close(&e);
}

static uint64_t put_record(struct pt_event *e, uint64_t at, uint16_t type,
                           uint16_t size, uint64_t flags)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct {
        struct perf_event_header header;
        uint64_t words[4];
    } r = { { type, 0, size }, { 0, 0, flags, 0 } };

    for (size_t i = 0; i < MIN(size, sizeof(r)); i++) {
        ((uint8_t *)e->page)[page + (at + i) % page] = ((uint8_t *)&r)[i];
    }
    return at + size;
}

static uint64_t stop_at(struct pt_event *e, uint64_t head)
{
    e->flags = 0;
    e->page->data_head = head;
    g_assert_true(pt_event_stop(e, NULL));
    g_assert_cmpuint(e->page->data_tail, ==, head);
    return e->flags;
}

/*
 * What the kernel says of a ring.  Nobody else can write it there, so the pages
 * are others than those of the event.
 */
static void test_flags(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct pt_event e;
    uint64_t at = 0;

    g_assert_null(pt_event_flaw(PERF_AUX_FLAG_OVERWRITE));
    g_assert_nonnull(strstr(pt_event_flaw(PERF_AUX_FLAG_PARTIAL |
                                          PERF_AUX_FLAG_OVERWRITE),
                            "IA32_VMX_MISC"));
    g_assert_nonnull(pt_event_flaw(PERF_AUX_FLAG_TRUNCATED));
    if (!open_own(&e)) {
        return;
    }
    e.page = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    g_assert_true(e.page != MAP_FAILED);
    e.base_size = 2 * page;
    at = put_record(&e, at, PERF_RECORD_AUX, 32, PERF_AUX_FLAG_OVERWRITE);
    at = put_record(&e, at, PERF_RECORD_LOST, 40, 0xff00);
    at = put_record(&e, at, PERF_RECORD_AUX, 40, PERF_AUX_FLAG_PARTIAL);
    g_assert_cmphex(stop_at(&e, at), ==,
                    PERF_AUX_FLAG_OVERWRITE | PERF_AUX_FLAG_PARTIAL);
    g_assert_cmphex(stop_at(&e, at), ==, 0);
    /* Around the end, often, also with a record in two pieces */
    for (unsigned i = 0; i < 1000; i++) {
        at = put_record(&e, at, PERF_RECORD_AUX, 40, 1u << (i & 3));
        g_assert_cmphex(stop_at(&e, at), ==, 1u << (i & 3));
    }
    /* Hostile: others have mapped the page, too. */
    put_record(&e, at, PERF_RECORD_AUX, 0, PERF_AUX_FLAG_PARTIAL);
    g_assert_cmphex(stop_at(&e, at + 32), ==, 0);
    at += 32;
    put_record(&e, at, PERF_RECORD_AUX, 24, PERF_AUX_FLAG_PARTIAL);
    g_assert_cmphex(stop_at(&e, at + 24), ==, 0);
    at += 24;
    put_record(&e, at, PERF_RECORD_AUX, 32, PERF_AUX_FLAG_PARTIAL);
    g_assert_cmphex(stop_at(&e, at + 16), ==, 0);
    g_assert_cmphex(stop_at(&e, at + 16 + page + 1), ==, 0);
    g_assert_cmphex(stop_at(&e, 0), ==, 0);
    e.page->data_tail = UINT64_MAX - 7;
    g_assert_cmphex(stop_at(&e, UINT64_MAX), ==, 0);
    pt_event_close(&e);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/pt-event/config", test_config);
    g_test_add_func("/pt-event/periods", test_periods);
    g_test_add_func("/pt-event/format", test_format);
    g_test_add_func("/pt-event/fault", test_fault);
    g_test_add_func("/pt-event/filter", test_filter);
    g_test_add_func("/pt-event/real", test_real);
    g_test_add_func("/pt-event/no-ring", test_no_ring);
    g_test_add_func("/pt-event/errors", test_errors);
    g_test_add_func("/pt-event/again", test_again);
    g_test_add_func("/pt-event/mock-ring", test_mock_ring);
    g_test_add_func("/pt-event/live-ring", test_live_ring);
    g_test_add_func("/pt-event/flags", test_flags);
    return g_test_run();
}
