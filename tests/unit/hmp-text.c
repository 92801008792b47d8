/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What QEMU's human monitor prints of memory and registers, and what it does
 * not
 */

#include <glib.h>
#include <string.h>

#include "monitor/hmp-text.h"

/* As QEMU 10.0 has it, with a DIMM and a VGA, without most of its registers */
#define TREE \
    "FlatView #0\r\n" \
    " AS \"cpu-smm-0\", root: memory\r\n" \
    " Root memory region: memory\r\n" \
    "  0000000000000000-00000000000bffff (prio 0, ram): pc.ram\r\n" \
    "\r\n" \
    "FlatView #1\r\n" \
    " AS \"memory\", root: system\r\n" \
    " AS \"cpu-memory-0\", root: system\r\n" \
    " Root memory region: system\r\n" \
    "  0000000000000000-000000000009ffff (prio 0, ram): pc.ram\r\n" \
    "  00000000000a0000-00000000000bffff (prio 1, i/o): vga-lowmem\r\n" \
    "  00000000000c0000-00000000000c9fff (prio 0, rom): pc.ram " \
    "@00000000000c0000\r\n" \
    "  0000000000100000-0000000007ffffff (prio 0, ram): pc.ram " \
    "@0000000000100000 KVM\r\n" \
    "  00000000fd000000-00000000fdffffff (prio -1, ramd): x (a) b\r\n" \
    "  00000000fff00000-00000000ffffffff (prio 4096, romd): flash\r\n" \
    "  0000000100000000-0000000107ffffff (prio 0, nv-ram): dm\r\n" \
    "\r\n" \
    "FlatView #2\r\n" \
    " AS \"I/O\", root: io\r\n" \
    " Root memory region: io\r\n" \
    "  0000000000000000-0000000000000007 (prio 0, i/o): dma-chan\r\n" \
    "\r\n"

static void test_ranges(void)
{
    static const struct hmp_range want[] = {
        { 0, 0xa0000 },
        { 0xc0000, 0xa000 },
        { 0x100000, 0x7f00000 },
        { 0xfff00000, 0x100000 },
        { UINT64_C(1) << 32, 0x8000000 },
    };
    g_autoptr(GError) error = NULL;
    g_autoptr(GArray) ranges = hmp_parse_ranges(TREE, &error);

    g_assert_no_error(error);
    g_assert_nonnull(ranges);
    g_assert_cmpmem(ranges->data, ranges->len * sizeof(want[0]), want,
                    sizeof(want));
}

/* The text with one thing in it replaced is an error that shows a line. */
static void check_tree(const char *old, const char *new, const char *shown)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GString) text = g_string_new(TREE);

    g_assert_cmpuint(g_string_replace(text, old, new, 0), >, 0);
    g_assert_null(hmp_parse_ranges(text->str, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
    if (!strstr(error->message, shown)) {
        g_test_message("%s", error->message);
        g_test_fail();
    }
}

static void test_strange_ranges(void)
{
    g_autoptr(GString) many = g_string_new("");
    g_autoptr(GError) error = NULL;

    check_tree("nv-ram", "magic-ram", "(prio 0, magic-ram): dm");
    check_tree("(prio 0, rom)", "(prio 0 rom)", "(prio 0 rom)");
    check_tree("(prio 0, rom)", "(prio , rom)", "(prio , rom)");
    check_tree("0000000007ffffff", "00000000000000f", "00000000000000f");
    check_tree("0000000007ffffff", "00000000000000000f", "000000f");
    check_tree("0000000007ffffff", "g000000007ffffff", "-g0");
    check_tree("0000000007ffffff", "00000000000fffff", "00fffff (");
    /* Over another one, and out of order */
    check_tree("00000000000c0000-", "00000000000bffff-", "bffff-");
    check_tree("00000000fd000000-00000000fdffffff",
               "0000000000000000-0000000000000fff", "0000-0000000000000fff");
    check_tree("  00000000000c0000-", " 00000000000c0000-", "000c0000-");
    check_tree(" AS \"memory\"", " AS \"memories\"", "FlatView #0");
    check_tree(" AS \"cpu-smm-0\"", " AS \"memory\"", "FlatView #0");
    check_tree(" Root memory region: ", " Root: ", "FlatView #0");
    check_tree(TREE, " AS \"memory\", root: system\n"
               " Root memory region: system\n"
               "  0000000000000000-0000000000000fff (prio 0, i/o): x\n",
               "no memory");
    check_tree(TREE, "", "''");
    check_tree(TREE, "unknown command: 'info\x1b mtree'\r\n",
               "'unknown command: 'info\\x1b mtree''");

    g_string_append(many, "FlatView #0\n AS \"memory\", root: system\n"
                          " Root memory region: system\n");
    for (unsigned i = 0; i < 5000; i++) {
        g_string_append_printf(many, "  %016x-%016x (prio 0, ram): x\n",
                               i << 12, i << 12 | 0xfff);
    }
    g_assert_null(hmp_parse_ranges(many->str, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
    g_clear_error(&error);
    g_string_set_size(many, 0);
    for (unsigned i = 0; i < 300000; i++) {
        g_string_append(many, "FlatView #0 and so on\n");
    }
    g_assert_null(hmp_parse_ranges(many->str, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
}

/* All of the addresses, and the last of them */
static void test_last_address(void)
{
    static const char begin[] = " AS \"memory\", root: system\n"
                                " Root memory region: system\n";
    g_autofree char *all = g_strconcat(
        begin, "  0000000000000000-ffffffffffffffff (prio 0, ram): x\n", NULL);
    g_autofree char *last = g_strconcat(
        begin, "  fffffffffffff000-ffffffffffffffff (prio 0, ram): x\n", NULL);
    g_autofree char *more = g_strconcat(
        last, "  0000000000000000-0000000000000fff (prio 0, ram): y\n", NULL);
    g_autoptr(GArray) ranges = NULL;

    g_assert_null(hmp_parse_ranges(all, NULL));
    g_assert_null(hmp_parse_ranges(more, NULL));
    ranges = hmp_parse_ranges(last, NULL);
    g_assert_nonnull(ranges);
    g_assert_cmpuint(ranges->len, ==, 1);
    g_assert_cmpuint(g_array_index(ranges, struct hmp_range, 0).size, ==,
                     0x1000);
}

static void test_host_address(void)
{
    static const char *const bad[] = {
        "Memory at address 0xa0000 is not RAM\r\n",
        "No memory is mapped at address 0xa0000\r\n",
        "Host virtual address for 0xa1000 (pc.ram) is 0x7f8cdfea0000\r\n",
        "Host virtual address for 0xa0000 (pc.ram) is (nil)\r\n",
        "Host virtual address for 0xa0000 (pc.ram) is 0x0\r\n",
        "Host virtual address for 0xa0000 (pc.ram) is 0x\r\n",
        "Host virtual address for 0xa0000 (pc.ram) is 0x7f8cdfea0000 more\r\n",
        "Host virtual address for 0xa0000 (pc.ram) is 0x17f8cdfea00000000\r\n",
        "Host virtual address for 0xa0000 pc.ram) is 0x7f8cdfea0000\r\n",
        "Host virtual address for a0000 (pc.ram) is 0x7f8cdfea0000\r\n",
        "",
    };
    uint64_t host = 0;

    g_assert_true(hmp_parse_host_address(
        "Host virtual address for 0xa0000 (pc.ram) is 0x7f8cdfea0000\r\n",
        0xa0000, &host, NULL));
    g_assert_cmphex(host, ==, 0x7f8cdfea0000);
    g_assert_true(hmp_parse_host_address(
        "Host virtual address for 0x0 (a (b) is 0x5 c) is 0x1000",
        0, &host, NULL));
    g_assert_cmphex(host, ==, 0x1000);
    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;

        g_assert_false(hmp_parse_host_address(bad[i], 0xa0000, &host, &error));
        g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
        g_assert_nonnull(strstr(error->message, "gpa2hva 0xa0000"));
    }
}

#define LINE(at) "00000000fffffff" #at ": 0xea 0x5b 0xe0 0x00 0xf0 0x30 " \
                 "0x36 0x2f\r\n"

static void test_bytes(void)
{
    static const uint8_t want[] = {
        0xea, 0x5b, 0xe0, 0x00, 0xf0, 0x30, 0x36, 0x2f,
        0xea, 0x5b, 0xe0, 0x00, 0xf0, 0x30, 0x36, 0x2f,
    };
    static const char *const bad[] = {
        LINE(0), LINE(0) LINE(0), LINE(0) LINE(8) LINE(8), LINE(8) LINE(0),
        LINE(0) "00000000fffffff8: Cannot access memory\r\n",
        LINE(0) "00000000fffffff8: 0xea 0x5b 0xe0 0x00 0xf0 0x30 0x36\r\n",
        LINE(0) "00000000fffffff8: 0xea 0x5b 0xe 0x00 0xf0 0x30 0x36 0x2f\r\n",
        LINE(0) "00000000fffffff8: 0xea 0x5b 0xe00 0x0 0xf0 0x30 0x36 0x2f\r\n",
        "",
    };
    uint8_t bytes[16];

    g_assert_true(hmp_parse_bytes(LINE(0) LINE(8), 0xfffffff0, bytes, 16,
                                  NULL));
    g_assert_cmpmem(bytes, 16, want, 16);
    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_assert_false(hmp_parse_bytes(bad[i], 0xfffffff0, bytes, 16, NULL));
    }
}

#define REGISTERS \
    "\r\nCPU#0\r\nRAX=0000000000000000 RBX=0000000000000000\r\n" \
    "RIP=ffffffff81a3d2f1 RFL=00000246 [---Z-P-] CPL=0 II=0 A20=1 SMM=0 " \
    "HLT=1\r\nCS =0010 0000000000000000 ffffffff 00af9b00 DPL=0 CS64 " \
    "[-RA]\r\nCR0=80050033 CR2=00007f0011223344 CR3=0000000002a10000 " \
    "CR4=000006f0\r\nEFER=0000000000000d01\r\nXMM00=0000000000000000\r\n"

static void check_registers(const char *old, const char *new)
{
    g_autoptr(GString) text = g_string_new(REGISTERS);
    g_autoptr(GError) error = NULL;
    struct hmp_registers r;

    g_assert_cmpuint(g_string_replace(text, old, new, 1), ==, 1);
    g_assert_false(hmp_parse_registers(text->str, &r, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
}

static void test_registers(void)
{
    struct hmp_registers r;

    g_assert_true(hmp_parse_registers(REGISTERS, &r, NULL));
    g_assert_cmphex(r.cr0, ==, 0x80050033);
    g_assert_cmphex(r.cr3, ==, 0x2a10000);
    g_assert_cmphex(r.cr4, ==, 0x6f0);
    g_assert_cmphex(r.efer, ==, 0xd01);
    g_assert_false(r.smm);
    check_registers("EFER", "EVER");
    check_registers("CR3=", "XCR3=");
    check_registers("CR3=", "CR3=x");
    check_registers("SMM=0", "SMM=2");
    check_registers("XMM00=", "CR0=");
    check_registers(REGISTERS, "No CPU\r\n");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/hmp-text/ranges", test_ranges);
    g_test_add_func("/hmp-text/strange-ranges", test_strange_ranges);
    g_test_add_func("/hmp-text/last-address", test_last_address);
    g_test_add_func("/hmp-text/host-address", test_host_address);
    g_test_add_func("/hmp-text/bytes", test_bytes);
    g_test_add_func("/hmp-text/registers", test_registers);
    return g_test_run();
}
