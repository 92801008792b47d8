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

/* Longer than a search takes, and less than between two that nobody requests */
#define PAUSE_US    100000
#define WAIT_US     60000000

struct rig {
    struct fake_linux guest;
    int ram;
    int named;                  /* how often tasks were said to be found */
    int symbols;                /* how often symbols were */
    int gone;                   /* how often there was no kernel */
    int finds;                  /* they are found now */
    int lacks;                  /* how often something new was missing */
    struct btrail_scanner *scanner;
};

static void write_ram(struct rig *r, const uint8_t *bytes)
{
    g_assert_cmpint(pwrite(r->ram, bytes, FAKE_SIZE, 0), ==, FAKE_SIZE);
}

static void got_found(void *opaque, const struct btrail_found *found)
{
    struct rig *r = opaque;

    if (found->missing && !found->tasks) {
        g_assert_nonnull(found->release);
        g_assert_cmpuint(g_strv_length(found->missing), ==, 1);
        g_atomic_int_inc(&r->lacks);
    }
    if (found->tasks) {
        g_atomic_int_set(&r->finds, !!found->tasks->switch_to);
    }
    if (found->tasks && found->tasks->switch_to) {
        g_atomic_int_inc(&r->named);
    } else if (found->tasks && !found->release) {
        g_atomic_int_inc(&r->gone);
    } else if (found->kind == BTRAIL_SIDEBAND_SYMBOLS) {
        g_assert_nonnull(g_strstr_len(found->data, (gssize)found->size,
                                      " T _stext\n"));
        g_atomic_int_inc(&r->symbols);
    }
}

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
static void start_with(struct rig *r, bool wait_for_scan, uint64_t size)
{
    struct guest_memory_files files;

    *r = (struct rig) { 0 };
    fake_linux_init(&r->guest, 0);
    r->ram = memfd_create("ram", MFD_CLOEXEC);
    g_assert_cmpint(ftruncate(r->ram, FAKE_SIZE), ==, 0);
    files = files_of(r, size);
    r->scanner = btrail_scanner_new(&files, wait_for_scan, NULL, got_found, r);
}

static void start(struct rig *r, bool wait_for_scan)
{
    start_with(r, wait_for_scan, FAKE_SIZE);
}

static void finish(struct rig *r)
{
    struct btrail_scanner_result result;

    btrail_scanner_finish(r->scanner, &result);
    g_assert_cmpstr(result.release, !=, NULL);
    btrail_scanner_result_clear(&result);
    fake_linux_clear(&r->guest);
    close(r->ram);
}

static bool has_kernel(struct rig *r)
{
    struct btrail_scanner_result result;
    bool has;

    btrail_scanner_status(r->scanner, &result);
    has = result.release && result.snapshots;
    btrail_scanner_result_clear(&result);
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
    g_assert_true(btrail_scanner_report_cr3(r.scanner, FAKE_ROOT));
    btrail_scanner_request(r.scanner);
    btrail_scanner_wait(r.scanner);
    g_assert_true(has_kernel(&r));
    g_assert_cmpint(g_atomic_int_get(&r.named), ==, 1);
    finish(&r);
}

/* No other guest is kept from running by a search. */
static void test_not_waited_for(void)
{
    gint64 begin;
    struct rig r;

    start(&r, false);
    g_usleep(PAUSE_US);
    write_ram(&r, r.guest.memory);
    begin = g_get_monotonic_time();
    btrail_scanner_request(r.scanner);
    btrail_scanner_wait(r.scanner);
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
    struct btrail_scanner_result result;
    struct rig r;
    uint8_t *btf;
    int gone;

    start(&r, false);
    btf = memmem(r.guest.memory, FAKE_SIZE, "__start_BTF", 11);
    *btf = 'x';
    write_ram(&r, r.guest.memory);
    wait_until(&r.symbols, 1);
    gone = g_atomic_int_get(&r.gone);
    btrail_scanner_status(r.scanner, &result);
    g_assert_cmpstr(result.release, ==, "6.0-fake");
    g_assert_cmpuint(result.snapshots, ==, 0);
    g_assert_cmpuint(g_strv_length(result.missing), ==, 1);
    g_assert_nonnull(strstr(result.missing[0], "CONFIG_DEBUG_INFO_BTF"));
    g_assert_cmpstr(result.why, ==, result.missing[0]);
    btrail_scanner_result_clear(&result);
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
    btrail_scanner_status(r.scanner, &result);
    g_assert_cmpuint(g_strv_length(result.missing), ==, 0);
    g_assert_null(result.why);
    btrail_scanner_result_clear(&result);
    g_assert_cmpint(g_atomic_int_get(&r.named), ==, 1);
    finish(&r);
}

/* From here on the guest's RAM ends at another address. */
static void set_memory(struct rig *r, uint64_t size)
{
    struct guest_memory_files files = files_of(r, size);

    btrail_scanner_memory(r->scanner, &files);
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
    btrail_scanner_memory(r.scanner, &files);
    wait_named(&r, true);
    finish(&r);
}

static char *missing(struct rig *r)
{
    struct btrail_scanner_result result;
    char *texts;

    btrail_scanner_status(r->scanner, &result);
    texts = result.missing ? g_strjoinv("\n", result.missing) : NULL;
    btrail_scanner_result_clear(&result);
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
    btrail_scanner_memory(r.scanner, &files);
    wait_until(&r.lacks, 1);
    some = missing(&r);
    g_assert_true(g_str_has_prefix(some, "131072 KiB of the guest's RAM cannot "
                                   "be read"));
    /* A range that cannot be opened, and then none */
    files.ranges[1] = (struct btrail_memory_range) {
        .address = UINT64_C(1) << 32, .size = 256 << 20, .file = 1,
    };
    files.head.ranges = 2;
    btrail_scanner_memory(r.scanner, &files);
    wait_until(&r.lacks, 2);
    set_memory(&r, FAKE_SIZE);
    wait_named(&r, true);
    more = missing(&r);
    g_assert_true(g_str_has_prefix(more, "393216 KiB "));
    g_assert_cmpint(g_atomic_int_get(&r.named), ==, 1);
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
    return g_test_run();
}
