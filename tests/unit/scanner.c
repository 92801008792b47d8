/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of the scanner: guest-linux/scanner.h
 */

#include <glib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "count-files.h"
#include "fake-linux.h"
#include "guest-linux/scanner.h"
#include "lib/agent/bytes.h"
#include "lib/agent/sideband.h"
#include "util/clock.h"

/* Longer than a search takes, and less than between two that nobody requests */
#define PAUSE_US    100000
#define WAIT_US     60000000

struct rig {
    struct fake_linux guest;
    struct btrail_budget *budget;
    int ram;
    int named;                  /* how often tasks were said to be found */
    int symbols;                /* how often the kernel's own were */
    int gone;                   /* how often there was no kernel */
    int finds;                  /* they are found now */
    int wakes;                  /* and where they are woken */
    bool booting;               /* a kernel can have one process */
    int processes;              /* in the last snapshot */
    int lacks;                  /* how often something new was missing */
    GMutex lock;
    GString *sent;              /* symbols, and times; under the lock */
    uint64_t last[3];           /* time of these, of each kernel */
    int number;                 /* of the kernel whose tasks are found */
    uint64_t mark;              /* of that, physical */
    int symbols_of;             /* which kernel's symbols were sent last */
    int ended;                  /* which kernel was said to have ended last */
    uint64_t ended_at;          /* when it was seen to run; under the lock */
    uint64_t ended_known;       /* when it was known not to; under the lock */
    uint64_t clock;             /* of what is said to run */
    int processes_of;           /* which kernel's processes were, */
    int nested;                 /* and with page tables of a nested guest? */
    int helds;                  /* how often symbols were said to have held */
    unsigned nap;               /* ms, after each piece of symbols */
    struct scanner *scanner;
};

static void write_ram(struct rig *r, const uint8_t *bytes)
{
    g_assert_cmpint(pwrite(r->ram, bytes, FAKE_SIZE, 0), ==, FAKE_SIZE);
}

/* Notes a piece, in whose time it must be its turn. */
static void add_sent(struct rig *r, const struct btrail_sideband_info *info,
                     const char *text, size_t size)
{
    g_assert_cmpuint(info->time, <=, clock_ns());
    g_mutex_lock(&r->lock);
    g_assert_cmpuint(info->kernel, <, G_N_ELEMENTS(r->last));
    g_assert_cmpuint(info->time, >=, r->last[info->kernel]);
    r->last[info->kernel] = info->time;
    g_string_append_len(r->sent, text, (gssize)size);
    g_mutex_unlock(&r->lock);
}

static void got_piece(struct rig *r, const struct btrail_sideband_info *info,
                      const char *data)
{
    if (info->kind == BTRAIL_SIDEBAND_SYMBOLS) {
        bool own = g_strstr_len(data, (gssize)info->size, " T _stext\n");

        add_sent(r, info, own ? "own\n" : data, own ? 4 : info->size);
        g_usleep(r->nap * 1000);
        if (own) {
            g_atomic_int_inc(&r->symbols);
            g_atomic_int_set(&r->symbols_of, info->kernel);
        }
    } else if (info->kind == BTRAIL_SIDEBAND_ENDED) {
        g_assert_cmpuint(info->size, ==, BTRAIL_SIDEBAND_ENDED_SIZE);
        g_mutex_lock(&r->lock);
        r->ended_at = info->time;
        r->ended_known = btrail_get64((const uint8_t *)data);
        g_assert_cmpuint(r->ended_known, <=, clock_ns());
        g_assert_cmpuint(r->ended_known, >=, r->last[info->kernel]);
        g_mutex_unlock(&r->lock);
        g_atomic_int_set(&r->ended, info->kernel);
    } else if (info->kind == BTRAIL_SIDEBAND_HELD) {
        g_assert_cmpuint(info->size, ==, 0);
        g_atomic_int_inc(&r->helds);
        add_sent(r, info, "held\n", 5);
    }
}

static void got_kernel(void *opaque, uint64_t nested, const char *release,
                       char **missing)
{
    struct rig *r = opaque;

    if (!release) {
        g_assert_null(missing);
        g_atomic_int_inc(&r->gone);
    } else if (g_strv_length(missing)) {
        g_assert_cmpuint(g_strv_length(missing), ==, 1);
        g_atomic_int_inc(&r->lacks);
    }
}

static void got_tasks(void *opaque, uint64_t nested,
                      const struct btrail_tasks *tasks)
{
    struct rig *r = opaque;

    g_atomic_int_set(&r->finds, !!tasks->switch_to);
    g_atomic_int_set(&r->wakes, !!tasks->wake);
    if (tasks->switch_to) {
        r->mark = tasks->mark_physical;
        g_atomic_int_set(&r->number, (int)tasks->number);
        g_atomic_int_inc(&r->named);
    }
}

static void got_found(void *opaque, const struct scanner_piece *piece)
{
    struct rig *r = opaque;
    struct btrail_sideband_info info;
    void *data;

    if (piece->snapshot) {
        g_assert_cmpuint(piece->snapshot->n, >=, r->booting ? 1 : 2);
        g_atomic_int_set(&r->processes, (int)piece->snapshot->n);
        for (uint32_t i = 0; i < piece->snapshot->n; i++) {
            uint64_t root = piece->snapshot->processes[i].pgd;

            g_assert_true(!root || !(root & BTRAIL_CR3_NESTED) ==
                          !piece->nested);
        }
        g_atomic_int_set(&r->processes_of, piece->kernel);
        g_atomic_int_set(&r->nested, piece->nested != 0);
    }
    g_assert_cmpint(btrail_sideband_unpack(piece->packed, piece->packed_size,
                                           &info, &data), ==, 0);
    g_assert_cmpuint(info.kind, ==, piece->kind);
    g_assert_cmpuint(info.kernel, ==, piece->kernel);
    got_piece(r, &info, data);
    free(data);
}

static const struct scanner_ops ops = {
    .piece = got_found,
    .kernel = got_kernel,
    .tasks = got_tasks,
};

/* The guest has its RAM up to some address. */
static struct guest_memory_files files_of(const struct rig *r, uint64_t size)
{
    struct guest_memory_files files = {
        .reason = BTRAIL_MEMORY_SHARED,
        .head = { .ranges = !!size, .files = 1 },
        .ranges[0] = { .size = size },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(files.fds); i++) {
        files.fds[i] = -1;
    }
    files.fds[0] = r->ram;
    return files;
}

/* A guest that has not booted */
static void start_of(struct rig *r, bool wait_for_scan, uint64_t size,
                     uint64_t budget)
{
    struct guest_memory_files files;

    *r = (struct rig) {
        .sent = g_string_new(NULL),
        .budget = btrail_budget_new_fixed(budget, 4),
    };
    g_mutex_init(&r->lock);
    fake_linux_init(&r->guest, 0);
    r->ram = memfd_create("ram", MFD_CLOEXEC);
    g_assert_cmpint(ftruncate(r->ram, FAKE_MOVED + FAKE_NESTED_SIZE), ==, 0);
    files = files_of(r, size);
    r->scanner = scanner_new(&files, wait_for_scan, NULL, r->budget,
                             &ops, r);
}

static void start_with(struct rig *r, bool wait_for_scan, uint64_t size)
{
    start_of(r, wait_for_scan, size, BTRAIL_BUDGET_GUEST);
}

static void start(struct rig *r, bool wait_for_scan)
{
    start_with(r, wait_for_scan, FAKE_SIZE);
}

/* In the end a kernel was said to have ended; 0: none was. */
static void finish_with(struct rig *r, int ended, uint64_t alive)
{
    struct scanner_result result;

    g_atomic_int_set(&r->ended, 0);
    scanner_finish(r->scanner, &result);
    g_assert_cmpint(r->ended, ==, ended);
    if (ended) {
        g_assert_cmpuint(r->ended_at, ==, alive);
    }
    g_assert_cmpstr(result.release, !=, NULL);
    scanner_result_clear(&result);
    fake_linux_clear(&r->guest);
    close(r->ram);
    g_string_free(r->sent, TRUE);
    g_mutex_clear(&r->lock);
    btrail_budget_unref(r->budget);
}

static void finish(struct rig *r)
{
    finish_with(r, 0, 0);
}

/* When a check last found the symbols unchanged, 0 if none did */
static uint64_t held_of(const struct rig *r)
{
    struct scanner_last last;

    scanner_last(r->scanner, &last);
    g_assert_cmpuint(last.ran, ==, 0);
    return last.held;
}

static bool has_kernel(struct rig *r)
{
    struct scanner_result result;
    bool has;

    scanner_status(r->scanner, &result);
    has = result.release && result.snapshots;
    scanner_result_clear(&result);
    return has;
}

/* A guest that waits for the scanner has its kernel found as soon as it runs. */
static void test_boot(void)
{
    struct rig r;

    start(&r, true);
    g_usleep(PAUSE_US);
    g_assert_false(has_kernel(&r));
    write_ram(&r, r.guest.memory);
    g_assert_true(scanner_report_cr3(r.scanner, FAKE_ROOT));
    scanner_request(r.scanner);
    scanner_wait(r.scanner);
    g_assert_true(has_kernel(&r));
    g_assert_cmpint(g_atomic_int_get(&r.named), ==, 1);
    finish(&r);
}

/* It has looked for a kernel, in vain; the next time is some time later. */
static void wait_searched(struct rig *r)
{
    bool searched = false;

    for (unsigned i = 0; !searched; i++) {
        struct scanner_result result;

        g_assert_cmpuint(i, <, 600);
        g_usleep(PAUSE_US / 10);
        scanner_status(r->scanner, &result);
        searched = result.why;
        scanner_result_clear(&result);
    }
}

/* No other guest is kept from running by a search. */
static void test_not_waited_for(void)
{
    gint64 begin;
    struct rig r;

    start(&r, false);
    wait_searched(&r);
    write_ram(&r, r.guest.memory);
    begin = g_get_monotonic_time();
    scanner_request(r.scanner);
    scanner_wait(r.scanner);
    g_assert_false(has_kernel(&r));
    g_assert_cmpint(g_get_monotonic_time() - begin, <, G_TIME_SPAN_SECOND / 2);
    finish(&r);
}

static void wait_until(const int *n, int least)
{
    for (unsigned i = 0; g_atomic_int_get(n) < least; i++) {
        g_assert_cmpuint(i, <, 600);
        g_usleep(PAUSE_US);
    }
}

/* Of a kernel without BTF the symbols are found, and it is said that no more
 * is; it is not taken for the kernel any more when it is not there. */
static void test_only_symbols(void)
{
    struct scanner_result result;
    struct rig r;
    uint8_t *btf;
    int gone;

    start(&r, false);
    btf = memmem(r.guest.memory, FAKE_SIZE, "__start_BTF", 11);
    *btf = 'x';
    write_ram(&r, r.guest.memory);
    wait_until(&r.symbols, 1);
    gone = g_atomic_int_get(&r.gone);
    scanner_status(r.scanner, &result);
    g_assert_cmpstr(result.release, ==, "6.0-fake");
    g_assert_cmpuint(result.snapshots, ==, 0);
    g_assert_cmpuint(g_strv_length(result.missing), ==, 1);
    g_assert_nonnull(strstr(result.missing[0], "CONFIG_DEBUG_INFO_BTF"));
    g_assert_cmpstr(result.why, ==, result.missing[0]);
    scanner_result_clear(&result);
    g_assert_cmpint(g_atomic_int_get(&r.named), ==, 0);
    g_assert_cmpint(g_atomic_int_get(&r.symbols), ==, 1);

    /* Another kernel, which has BTF */
    memset(memmem(r.guest.memory, FAKE_SIZE, "Linux version", 13), 0, 13);
    write_ram(&r, r.guest.memory);
    wait_until(&r.gone, gone + 1);
    fake_linux_clear(&r.guest);
    fake_linux_init(&r.guest, 0);
    write_ram(&r, r.guest.memory);
    wait_until(&r.symbols, 2);
    scanner_status(r.scanner, &result);
    g_assert_cmpuint(g_strv_length(result.missing), ==, 0);
    g_assert_null(result.why);
    scanner_result_clear(&result);
    wait_until(&r.named, 1);

    /* It is given up, and found again: its own symbols are the same. */
    gone = g_atomic_int_get(&r.gone);
    memset(r.guest.memory, 0, FAKE_SIZE);
    write_ram(&r, r.guest.memory);
    wait_until(&r.gone, gone + 1);
    fake_linux_clear(&r.guest);
    fake_linux_init(&r.guest, 0);
    write_ram(&r, r.guest.memory);
    wait_until(&r.named, 2);
    finish(&r);
    g_assert_cmpint(g_atomic_int_get(&r.symbols), ==, 2);
}

/* From here on the guest's RAM ends at another address. */
static void set_memory(struct rig *r, uint64_t size)
{
    struct guest_memory_files files = files_of(r, size);

    scanner_memory(r->scanner, &files);
}

/* Waits until tasks are found, or are not found any more. */
static void wait_named(struct rig *r, bool named)
{
    gint64 deadline = g_get_monotonic_time() + WAIT_US;

    while (g_atomic_int_get(&r->finds) != named) {
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
        g_usleep(PAUSE_US / 10);
    }
}

/* RAM that comes has a kernel, and then goes. */
static void test_plugged(void)
{
    unsigned before = count_files("/proc/self/fd");
    struct rig r;

    start_with(&r, false, GUEST_PAGE_SIZE);
    write_ram(&r, r.guest.memory);
    g_usleep(PAUSE_US);
    g_assert_false(has_kernel(&r));
    g_assert_cmpint(g_atomic_int_get(&r.named), ==, 0);
    set_memory(&r, FAKE_SIZE);
    wait_named(&r, true);
    /* Its structs are gone. */
    set_memory(&r, FAKE_STRUCTS * GUEST_PAGE_SIZE);
    wait_named(&r, false);
    /* What no snapshot has seen is not kept. */
    set_memory(&r, 0);
    set_memory(&r, FAKE_SIZE);
    wait_named(&r, true);
    g_assert_true(has_kernel(&r));
    set_memory(&r, FAKE_SIZE);
    finish(&r);
    g_assert_cmpuint(count_files("/proc/self/fd"), ==, before);
}

/* A kernel that nobody would find, until the guest says where its note is */
static void test_note(void)
{
    static const struct {
        uint32_t name_size, size, type;
        char name[12];
    } head = { 11, 1024, 0, "VMCOREINFO" };
    struct guest_memory_files files;
    struct rig r;
    uint8_t *note;

    start(&r, false);
    note = r.guest.memory + FAKE_NOTE * GUEST_PAGE_SIZE;
    memmove(note + sizeof(head), note, head.size);
    memcpy(note, &head, sizeof(head));
    write_ram(&r, r.guest.memory);
    g_usleep(12 * PAUSE_US);
    g_assert_cmpint(g_atomic_int_get(&r.named), ==, 0);
    files = files_of(&r, FAKE_SIZE);
    files.head.note = FAKE_NOTE * GUEST_PAGE_SIZE;
    files.head.note_size = sizeof(head) + head.size;
    scanner_memory(r.scanner, &files);
    wait_named(&r, true);
    finish(&r);
}

static char *missing(struct rig *r)
{
    struct scanner_result result;
    char *texts;

    scanner_status(r->scanner, &result);
    texts = result.missing ? g_strjoinv("\n", result.missing) : NULL;
    scanner_result_clear(&result);
    return texts;
}

/* How much of the guest's RAM cannot be read is said, and not forgotten. */
static void test_private(void)
{
    struct guest_memory_files files;
    g_autofree char *none = NULL, *some = NULL, *more = NULL;
    struct rig r;

    start(&r, false);
    write_ram(&r, r.guest.memory);
    wait_named(&r, true);
    none = missing(&r);
    g_assert_cmpstr(none, ==, "");
    files = files_of(&r, FAKE_SIZE);
    files.head.unshared = 128 << 20;
    scanner_memory(r.scanner, &files);
    wait_until(&r.lacks, 1);
    some = missing(&r);
    g_assert_true(g_str_has_prefix(some, "131072 KiB of the guest's RAM cannot "
                                   "be read"));
    /* A range that cannot be opened, and then none */
    files.ranges[1] = (struct btrail_memory_range) {
        .address = UINT64_C(1) << 32, .size = 256 << 20, .file = 1,
    };
    files.head.ranges = 2;
    scanner_memory(r.scanner, &files);
    wait_until(&r.lacks, 2);
    set_memory(&r, FAKE_SIZE);
    wait_named(&r, true);
    more = missing(&r);
    g_assert_true(g_str_has_prefix(more, "393216 KiB "));
    g_assert_cmpint(g_atomic_int_get(&r.named), ==, 1);
    finish(&r);
}

#define MODULE \
    "ffffffffc0000000 t load\t[mod]\n" \
    "ffffffffc0000010 t stop\t[mod]\n" \
    "ffffffffc0004000 d data\t[mod]\n" \
    "ffffffffc0000074 e .end\t[mod]\n"
#define FTRACE \
    "ffffffffc0101000 t ftrace_trampoline\t[__builtin__ftrace]\n" \
    "ffffffffc0101123 e .end\t[__builtin__ftrace]\n"
#define BPF \
    "ffffffffc0100000 t bpf_prog_1\t[bpf]\n" \
    "ffffffffc0100100 t bpf_prog_2\t[bpf]\n" \
    "ffffffffc0100120 e .end\t[bpf]\n"
#define KPROBES \
    "ffffffffc0102000 t kprobe_insn_page\t[__builtin__kprobes]\n" \
    "ffffffffc0103000 e .end\t[__builtin__kprobes]\n"

/* What was sent by now, to be freed */
static char *sent(struct rig *r)
{
    char *text;

    g_mutex_lock(&r->lock);
    text = g_strdup(r->sent->str);
    g_mutex_unlock(&r->lock);
    return text;
}

static void require_sent(struct rig *r, const char *want)
{
    g_autofree char *text = sent(r);

    g_assert_cmpstr(text, ==, want);
}

/* Symbols of what comes and goes are sent when they are others. */
static void test_loaded(void)
{
    struct scanner_result result;
    struct fake_linux *f;
    uint64_t held;
    struct rig r;

    start(&r, true);
    f = &r.guest;
    g_assert_false(scanner_report_kernel_code(r.scanner, FAKE_BPF));
    /* Who waits meanwhile waits until all is known. */
    r.nap = 20;
    write_ram(&r, f->memory);
    scanner_request(r.scanner);
    scanner_request_check(r.scanner);
    scanner_wait(r.scanner);
    require_sent(&r, "own\n" MODULE FTRACE BPF KPROBES);
    g_assert_true(scanner_report_kernel_code(r.scanner, FAKE_BPF));
    g_assert_false(scanner_report_kernel_code(r.scanner,
                                              FAKE_STEXT + 0x100));
    /* Nothing has changed. */
    held = held_of(&r);
    g_assert_cmpuint(held, !=, 0);
    scanner_request_check(r.scanner);
    scanner_wait(r.scanner);
    g_assert_cmpuint(held_of(&r), >, held);
    require_sent(&r, "own\n" MODULE FTRACE BPF KPROBES);
    /* While something changes, nothing is said. */
    fake_linux_put64(f, f->bpf_list, 0, f->bpf[1] + f->layout.bpf_node);
    write_ram(&r, f->memory);
    scanner_request_check(r.scanner);
    scanner_wait(r.scanner);
    require_sent(&r, "own\n" MODULE FTRACE BPF KPROBES);
    held = held_of(&r);
    /* A program is gone. */
    fake_linux_put64(f, f->bpf[1], f->layout.bpf_node + 8, f->bpf_list);
    write_ram(&r, f->memory);
    scanner_request_check(r.scanner);
    scanner_wait(r.scanner);
    require_sent(&r, "own\n" MODULE FTRACE BPF KPROBES "held\n" MODULE FTRACE
                 "ffffffffc0100100 t bpf_prog_2\t[bpf]\n"
                 "ffffffffc0100120 e .end\t[bpf]\n" KPROBES);
    g_assert_cmpuint(held_of(&r), >, held);
    /* At the end, they hold. */
    scanner_finish(r.scanner, &result);
    scanner_result_clear(&result);
    g_assert_true(g_str_has_suffix(r.sent->str, KPROBES "held\n"));
    fake_linux_clear(f);
    close(r.ram);
    g_string_free(r.sent, TRUE);
    btrail_budget_unref(r.budget);
    g_mutex_clear(&r.lock);
}

/*
 * It is noticed without a request, too.  Checks use half a percent of the time,
 * so a minute is between two that are slow: with sanitizers, on a busy host.
 */
static void test_noticed(void)
{
    gint64 until = g_get_monotonic_time() + 240 * G_TIME_SPAN_SECOND;
    struct fake_linux *f;
    struct rig r;
    bool noticed = false;

    start(&r, false);
    f = &r.guest;
    write_ram(&r, f->memory);
    while (!scanner_report_kernel_code(r.scanner, FAKE_BPF) &&
           g_get_monotonic_time() < until) {
        g_usleep(1000);
    }
    fake_linux_put64(f, f->ftrace, f->layout.ftrace_start, 0);
    write_ram(&r, f->memory);
    while (!noticed && g_get_monotonic_time() < until) {
        g_autofree char *text = sent(&r);

        noticed = strstr(text, "held\n" MODULE BPF KPROBES);
        g_usleep(1000);
    }
    g_assert_true(noticed);
    finish(&r);
}

/* Waits until something is so; it takes a search and a snapshot. */
static bool becomes(const int *value, int wanted)
{
    for (unsigned i = 0; i < 200 && g_atomic_int_get(value) != wanted; i++) {
        g_usleep(PAUSE_US / 2);
    }
    return g_atomic_int_get(value) == wanted;
}

/*
 * Another kernel has begun to run, and the first one is intact in memory, as
 * after a crash with kdump.  The CR3 that runs says which of them it is.
 */
static void test_two_kernels(void)
{
    struct scanner_result result;
    struct fake_linux second;
    struct rig r;

    start_with(&r, false, FAKE_MOVED + FAKE_SIZE);
    write_ram(&r, r.guest.memory);
    g_assert_true(becomes(&r.number, 1));
    g_assert_true(becomes(&r.symbols_of, 1));
    g_assert_cmphex(r.mark, <, FAKE_SIZE);

    /* Page tables of neither: those of firmware, or of what loads a kernel */
    scanner_report_stranger(r.scanner, 0x800000);
    fake_linux_init(&second, 0);
    fake_linux_move(&second);
    g_assert_cmpint(pwrite(r.ram, second.memory, FAKE_SIZE, FAKE_MOVED), ==,
                    FAKE_SIZE);
    /* Those of the one that is known: another vCPU runs, with a process. */
    scanner_report_stranger(r.scanner, FAKE_ROOT);
    g_usleep(5 * PAUSE_US);
    g_assert_cmpint(g_atomic_int_get(&r.number), ==, 1);

    scanner_report_stranger(r.scanner, FAKE_MOVED + FAKE_ROOT);
    g_assert_true(becomes(&r.number, 2));
    g_assert_cmphex(r.mark, >, FAKE_MOVED);
    g_assert_true(becomes(&r.symbols_of, 2));

    /* It is the first one again, as after a guest was restored. */
    scanner_report_stranger(r.scanner, FAKE_ROOT);
    g_assert_true(becomes(&r.number, 1));
    g_assert_true(becomes(&r.symbols_of, 1));
    scanner_status(r.scanner, &result);
    g_assert_cmpuint(g_strv_length(result.kernels), ==, 2);
    g_assert_cmpstr(result.kernels[1], ==, "6.0-fake");
    scanner_result_clear(&result);
    fake_linux_clear(&second);
    finish(&r);
}

/*
 * Reports that page tables run, each 5 ms of a clock of its own, which is never
 * ahead of the host's: for this many ms, or until something is so.  Returns
 * when they ran last.
 */
static uint64_t runs(struct rig *r, uint64_t cr3, unsigned ms, const int *value,
                     int wanted)
{
    for (unsigned i = 0; i < ms / 5 &&
         (!value || g_atomic_int_get(value) != wanted); i++) {
        g_usleep(5000);
        r->clock += 5000000;
        scanner_report_ran(r->scanner, cr3, r->clock);
    }
    g_assert_true(!value || g_atomic_int_get(value) == wanted);
    return r->clock;
}

/* The same when nobody says which kernel runs, but only what page tables do */
static void test_unsaid(void)
{
    struct fake_linux second;
    uint64_t alive;
    struct rig r;

    start_with(&r, false, FAKE_MOVED + FAKE_SIZE);
    write_ram(&r, r.guest.memory);
    g_assert_true(becomes(&r.symbols_of, 1));
    r.clock = clock_ns();
    runs(&r, FAKE_ROOT, 300, NULL, 0);

    /* Nothing runs, and then firmware does, for a short time. */
    g_usleep(10 * PAUSE_US);
    r.clock += 10 * PAUSE_US * 1000;
    runs(&r, 0x900000, 150, NULL, 0);
    alive = runs(&r, FAKE_ROOT, 400, NULL, 0);
    g_assert_cmpint(g_atomic_int_get(&r.ended), ==, 0);

    /* It loads another kernel, and that runs. */
    fake_linux_init(&second, 0);
    fake_linux_move(&second);
    g_assert_cmpint(pwrite(r.ram, second.memory, FAKE_SIZE, FAKE_MOVED), ==,
                    FAKE_SIZE);
    runs(&r, 0x900000, 20000, &r.ended, 1);
    g_mutex_lock(&r.lock);
    g_assert_cmpuint(r.ended_at, ==, alive);
    g_assert_cmpuint(r.ended_known, >=, alive + 300000000);
    g_mutex_unlock(&r.lock);
    g_assert_true(becomes(&r.finds, 0));
    /* The first one is intact in memory, but it does not run. */
    runs(&r, 0x900000, 1500, NULL, 0);
    g_assert_cmpint(g_atomic_int_get(&r.symbols_of), ==, 1);
    g_assert_false(g_atomic_int_get(&r.finds));
    runs(&r, FAKE_MOVED + FAKE_ROOT, 20000, &r.symbols_of, 2);
    g_assert_cmpint(g_atomic_int_get(&r.number), ==, 2);
    g_assert_cmpint(g_atomic_int_get(&r.ended), ==, 1);

    /*
     * The guest is restored.  At the end it is too early to be sure, but what
     * was seen is said.
     */
    runs(&r, FAKE_MOVED + FAKE_ROOT, 200, NULL, 0);
    runs(&r, FAKE_ROOT, 20000, &r.ended, 2);
    runs(&r, FAKE_ROOT, 20000, &r.number, 1);
    g_assert_true(becomes(&r.finds, 1));
    r.clock = clock_ns();
    alive = runs(&r, FAKE_ROOT, 200, NULL, 0);
    runs(&r, 0x900000, 100, NULL, 0);
    fake_linux_clear(&second);
    finish_with(&r, 1, alive);
}

/*
 * A kernel is found when it has only begun to boot, if it is said that there
 * may be one.  It stays the same when it has booted.
 */
static void test_boots(void)
{
    struct rig r;

    start(&r, false);
    r.booting = true;
    fake_linux_boots(&r.guest, true);
    write_ram(&r, r.guest.memory);
    /* Page tables of something else */
    scanner_report_image(r.scanner, 0x800000);
    g_usleep(12 * PAUSE_US);
    g_assert_cmpint(g_atomic_int_get(&r.named), ==, 0);
    scanner_report_image(r.scanner, FAKE_ROOT);
    g_assert_true(becomes(&r.number, 1));
    g_assert_true(becomes(&r.processes, 1));
    g_assert_true(becomes(&r.symbols_of, 1));
    g_assert_cmpint(g_atomic_int_get(&r.wakes), ==, 0);
    scanner_report_image(r.scanner, FAKE_ROOT);
    /* Longer than a kernel without processes is taken to be there */
    g_usleep(15 * PAUSE_US);
    g_assert_true(g_atomic_int_get(&r.finds));
    g_assert_cmpint(g_atomic_int_get(&r.named), ==, 1);
    g_assert_cmpint(g_atomic_int_get(&r.gone), ==, 1);

    fake_linux_boots(&r.guest, false);
    write_ram(&r, r.guest.memory);
    g_assert_true(becomes(&r.wakes, 1));
    g_assert_true(becomes(&r.processes, 3));
    g_assert_cmpint(g_atomic_int_get(&r.named), ==, 2);
    g_assert_cmpint(g_atomic_int_get(&r.number), ==, 1);
    g_assert_cmpint(g_atomic_int_get(&r.symbols), ==, 1);
    /* It goes. */
    memset(r.guest.memory, 0, FAKE_SIZE);
    write_ram(&r, r.guest.memory);
    g_assert_true(becomes(&r.gone, 2));
    finish(&r);
}

/* One that boots after a reset, while another one is still in memory */
static void test_boots_again(void)
{
    struct fake_linux second;
    struct rig r;

    start_with(&r, false, FAKE_MOVED + FAKE_SIZE);
    r.booting = true;
    write_ram(&r, r.guest.memory);
    g_assert_true(becomes(&r.symbols_of, 1));
    fake_linux_init(&second, 0);
    fake_linux_move(&second);
    fake_linux_boots(&second, true);
    g_assert_cmpint(pwrite(r.ram, second.memory, FAKE_SIZE, FAKE_MOVED), ==,
                    FAKE_SIZE);
    scanner_report_image(r.scanner, FAKE_MOVED + FAKE_ROOT);
    g_assert_true(becomes(&r.number, 2));
    g_assert_true(becomes(&r.symbols_of, 2));
    fake_linux_clear(&second);
    finish(&r);
}

/*
 * Processes without end, none of which is known to have ended, as the list of
 * them is torn: what is kept of them is no more than the budget.
 */
static void test_budget(void)
{
    const uint64_t size = 32 << 10;
    struct scanner_result result;
    struct fake_linux *f;
    uint64_t before = 0, next;
    struct rig r;

    start_of(&r, true, FAKE_SIZE, size);
    f = &r.guest;
    memcpy(&next, fake_linux_at(f, f->process + f->layout.task_tasks), 8);
    fake_linux_put64(f, next, 8, 0);
    for (unsigned i = 0; i < 600; i++) {
        fake_linux_put64(f, f->process, f->layout.task_start_boot, 1000 + i);
        write_ram(&r, f->memory);
        scanner_request(r.scanner);
        scanner_wait(r.scanner);
        if (i == 10) {
            g_assert_cmpuint(btrail_budget_left(r.budget), >, size / 4);
            before = btrail_budget_refused(r.budget);
        }
    }
    g_test_message("%" G_GUINT64_FORMAT " refused, %" G_GUINT64_FORMAT " left",
                   btrail_budget_refused(r.budget),
                   btrail_budget_left(r.budget));
    g_assert_cmpuint(btrail_budget_refused(r.budget), >, before + 100);
    g_assert_cmpuint(btrail_budget_left(r.budget), >=, size / 4);
    g_assert_cmpuint(btrail_budget_left(r.budget), <, size / 4 + 1024);
    /* They are found all the same, and so are symbols. */
    scanner_status(r.scanner, &result);
    g_assert_cmpuint(result.snapshots, >, 500);
    scanner_result_clear(&result);
    g_assert_cmpint(g_atomic_int_get(&r.symbols), ==, 1);
    finish(&r);
}

static void finish_nested(struct scanner *sc)
{
    struct scanner_result result;

    scanner_finish(sc, &result);
    scanner_result_clear(&result);
}

/*
 * A nested guest has a kernel with the same addresses, in memory that is
 * somewhere else.  Each has its own number, whatever page tables the hypervisor
 * makes for it.
 */
static void test_nested(void)
{
    const uint64_t cr3 = BTRAIL_CR3_NESTED | FAKE_ROOT;
    struct scanner *first, *second;
    g_autofree uint8_t *bytes = g_malloc(FAKE_NESTED_SIZE);
    struct scanner_result result;
    struct guest_memory_files files;
    struct scanner_last last = { 0 };
    struct rig r;
    int helds;

    start_with(&r, false, FAKE_MOVED + FAKE_NESTED_SIZE);
    files = files_of(&r, FAKE_MOVED + FAKE_NESTED_SIZE);
    write_ram(&r, r.guest.memory);
    g_assert_true(becomes(&r.number, 1));
    g_assert_true(becomes(&r.symbols_of, 1));

    /* It boots. */
    first = scanner_new_nested(r.scanner, &files, FAKE_NESTED_ROOT,
                               BTRAIL_CR3_NESTED | 0x800000);
    g_usleep(PAUSE_US);
    fake_linux_nest(&r.guest, bytes);
    g_assert_cmpint(pwrite(r.ram, bytes, FAKE_NESTED_SIZE, FAKE_MOVED), ==,
                    FAKE_NESTED_SIZE);
    g_usleep(5 * PAUSE_US);
    g_assert_cmpint(g_atomic_int_get(&r.number), ==, 1);
    scanner_report_stranger(first, cr3);
    g_assert_true(becomes(&r.number, 2));
    g_assert_true(becomes(&r.symbols_of, 2));
    g_assert_true(becomes(&r.processes_of, 2));
    g_assert_cmpint(g_atomic_int_get(&r.nested), ==, 1);
    /* As it sees its memory */
    g_assert_cmphex(r.mark, <, FAKE_SIZE);
    g_assert_false(scanner_report_cr3(first, cr3) &&
                   scanner_report_cr3(first, cr3));
    g_assert_true(becomes(&r.processes_of, 1));

    /* The hypervisor makes other nested page tables for it. */
    for (unsigned i = 0; i < 100 && !last.held; i++) {
        g_usleep(PAUSE_US);
        scanner_last(first, &last);
    }
    g_assert_cmpuint(last.kernel, ==, 2);
    g_atomic_int_set(&r.number, 0);
    helds = g_atomic_int_get(&r.helds);
    second = scanner_new_nested(r.scanner, &files, FAKE_NESTED_OTHER,
                                cr3);
    g_assert_true(becomes(&r.number, 2));
    g_assert_cmpint(g_atomic_int_get(&r.helds), ==, helds + 1);
    for (unsigned i = 0; i < 100 && !scanner_is_over(first); i++) {
        g_usleep(PAUSE_US);
    }
    g_assert_true(scanner_is_over(first));
    finish_nested(first);
    g_assert_cmpint(g_atomic_int_get(&r.helds), ==, helds + 1);
    g_assert_false(scanner_is_over(second));

    scanner_status(r.scanner, &result);
    g_assert_cmpuint(g_strv_length(result.kernels), ==, 2);
    scanner_result_clear(&result);
    /* It goes, and its memory with it. */
    memset(bytes, 0, FAKE_NESTED_SIZE);
    g_assert_cmpint(pwrite(r.ram, bytes, FAKE_NESTED_SIZE, FAKE_MOVED), ==,
                    FAKE_NESTED_SIZE);
    g_assert_true(becomes(&r.gone, 1));
    finish_nested(second);
    finish(&r);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/scanner/boot", test_boot);
    g_test_add_func("/scanner/not-waited-for", test_not_waited_for);
    g_test_add_func("/scanner/only-symbols", test_only_symbols);
    g_test_add_func("/scanner/plugged", test_plugged);
    g_test_add_func("/scanner/note", test_note);
    g_test_add_func("/scanner/private", test_private);
    g_test_add_func("/scanner/loaded", test_loaded);
    g_test_add_func("/scanner/noticed", test_noticed);
    g_test_add_func("/scanner/two-kernels", test_two_kernels);
    g_test_add_func("/scanner/unsaid", test_unsaid);
    g_test_add_func("/scanner/boots", test_boots);
    g_test_add_func("/scanner/boots-again", test_boots_again);
    g_test_add_func("/scanner/budget", test_budget);
    g_test_add_func("/scanner/nested", test_nested);
    return g_test_run();
}
