/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * GDB's agent expressions, as QEMU evaluates them
 *
 * What operations do is from "Bytecode Descriptions" of GDB's manual.
 */

#include "qemu/osdep.h"
#include <glib.h>

#include "agent-expression.h"
#include "gdb/rsp.h"

#define UNTOUCHED   UINT64_C(0x5555)

/* Register N has N times 0x101, and there are 16. */
static bool read_reg(void *opaque, unsigned number, uint64_t *value)
{
    *value = number * 0x101;
    return number < 16;
}

/* Each byte below 0x1000 is its address. */
static bool read_memory(void *opaque, uint64_t addr, unsigned size,
                        uint64_t *value)
{
    if (addr > 0x1000 - size) {
        return false;
    }
    *value = 0;
    for (unsigned i = size; i-- > 0;) {
        *value = *value << 8 | (uint8_t)(addr + i);
    }
    return true;
}

static bool evaluate(const char *digits, uint64_t *value)
{
    const AgentTarget target = { .reg = read_reg, .memory = read_memory };
    size_t n;
    g_autofree char *code = rsp_unhex(digits, &n);
    /* For a sanitizer to see what is read after it */
    g_autofree uint8_t *exact = g_memdup2(code, n);

    g_assert_nonnull(code);
    *value = UNTOUCHED;
    return agent_expression_value(exact, n, &target, value);
}

static void check(const char *digits, uint64_t want)
{
    uint64_t value;

    g_assert_true(evaluate(digits, &value));
    g_assert_cmphex(value, ==, want);
}

static void check_none(const char *digits)
{
    uint64_t value;

    g_assert_false(evaluate(digits, &value));
    g_assert_cmphex(value, ==, UNTOUCHED);
}

static void test_numbers(void)
{
    check("22ff27", 0xff);
    check("23123427", 0x1234);
    check("241234567827", 0x12345678);
    check("25123456789abcdef027", UINT64_C(0x123456789abcdef0));
    check("2205220a0227", 15);
    check("2205220a0327", -UINT64_C(5));
    check("2205220a0427", 50);
}

static void test_signs(void)
{
    /* -100 by 7, as signed and as unsigned numbers */
    check("220022640322070527", -UINT64_C(14));
    check("220022640322070727", -UINT64_C(2));
    check("220022640322070627", UINT64_C(2635249153387078788));
    check("220022640322070827", UINT64_C(0));
    /* The lowest number by -1 */
    check("25800000000000000022002201030527", UINT64_C(1) << 63);
    check("25800000000000000022002201030727", 0);
    check("22ff2a0827", 0xff);
    check("22ff160827", -UINT64_C(1));
    check("227f160827", 0x7f);
    check("25ffffffffffffffff2a0127", 1);
    check("25ffffffffffffffff164027", UINT64_MAX);
    check("220022010322011427", 1);
    check("220022010322011527", 0);
}

static void test_bits(void)
{
    check("220c220a0f27", 8);
    check("220c220a1027", 14);
    check("220c220a1127", 6);
    check("22001227", UINT64_MAX);
    check("22000e27", 1);
    check("22050e27", 0);
    check("220522051327", 1);
    check("220122040927", 16);
    check("220122400927", 0);
    check("220022100322020a27", -UINT64_C(4));
    check("2200221003227f0a27", UINT64_MAX);
    check("220022100322020b27", UINT64_C(0x3ffffffffffffffc));
}

static void test_stack(void)
{
    check("220122022827", 2);
    check("220122022927", 1);
    check("220122022b27", 1);
    check("2201220222033327", 2);
    check("220122022203332927", 1);
    check("22012202220333292927", 3);
    check("220122022203320227", 1);
    check_none("220122022203320327");
    check_none("02");
    check_none("220102");
    check_none("27");
    check_none("29");
    check_none("220133");
}

static void test_target(void)
{
    check("26000f27", 0xf0f);
    check_none("26001027");
    check("22101727", 0x10);
    check("22101827", 0x1110);
    check("22101927", 0x13121110);
    check("22101a27", UINT64_C(0x1716151413121110));
    check("230fff1727", 0xff);
    check_none("230fff1827");
}

static void test_jumps(void)
{
    /* 1 ? 2 : 3, and 0 ? 2 : 3 */
    check("220120000a220321000c220227", 2);
    check("220020000a220321000c220227", 3);
    /* Not back, nor to itself, nor out of it */
    check_none("210000");
    check_none("21000327210000");
    check_none("2201210002");
    check_none("21fffe27");
}

static void test_bad(void)
{
    char digits[2 * 202 + 1];

    check_none("");
    check_none("2201");
    check_none("22");
    check_none("2300");
    check_none("25000000");
    check_none("2600");
    check_none("2000");
    check_none("2201160027");
    check_none("220116");
    check_none("220122000527");
    check_none("220122000627");
    check_none("220122000727");
    check_none("220122000827");
    /* float, trace, getv, printf, and what there is not */
    check_none("22010127");
    check_none("220122010c27");
    check_none("2c000127");
    check_none("34000127");
    check_none("0027");
    check_none("ff27");
    /* 100 numbers, and one more */
    for (unsigned i = 0; i < 101; i++) {
        g_snprintf(digits + 4 * i, 5, "2201");
    }
    g_snprintf(digits + 400, 3, "27");
    check(digits, 1);
    g_snprintf(digits + 400, 5, "2201");
    check_none(digits);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/agent-expression/numbers", test_numbers);
    g_test_add_func("/agent-expression/signs", test_signs);
    g_test_add_func("/agent-expression/bits", test_bits);
    g_test_add_func("/agent-expression/stack", test_stack);
    g_test_add_func("/agent-expression/target", test_target);
    g_test_add_func("/agent-expression/jumps", test_jumps);
    g_test_add_func("/agent-expression/bad", test_bad);
    return g_test_run();
}
