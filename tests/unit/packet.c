/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Requests of a gdb: what their schemas accept, and which is found in a table
 */

#include <glib.h>
#include <string.h>

#include "gdb/packet.h"

/**
 * struct scene - a text
 * @ok:      a schema accepts it
 * @numbers: of its values
 * @text:    of the last value, if it has some
 */
struct scene {
    const char *schema;
    const char *text;
    bool ok;
    uint64_t numbers[PACKET_VALUES];
    const char *last;
};

static const struct scene scenes[] = {
    { "", "", true },
    { "", "x", false },
    { "n", "0", true },
    { "n", "fEd0", true, { 0xfed0 } },
    { "n", "ffffffffffffffff", true, { UINT64_MAX } },
    { "n", "0000000000000000000000001", true, { 1 } },
    { "n", "10000000000000000", false },
    { "n", "", false },
    { "n", "-1", false },
    { "n", "0x10", false },
    { "n", " 1", false },
    { "n", "1 ", false },
    { "n", "1,", false },
    { "n,n", "1,2", true, { 1, 2 } },
    { "n,n", "1", false },
    { "n,n", "1,", false },
    { "n,n", ",2", false },
    { "n,n", "1;2", false },
    { "n,n", "1,2,3", false },
    { "n,n,ns", "0,1000,1", true, { 0, 0x1000, 1 }, "" },
    { "n,n,ns", "0,1000,1;X1,00", true, { 0, 0x1000, 1 }, ";X1,00" },
    { "n,n,ns", "0,1000", false },
    { "s", "", true, { 0 }, "" },
    { "s", "any:thing,\x80", true, { 0 }, "any:thing,\x80" },
    { "t", "1", true, { 1 } },
    { "t", "0", true, { PACKET_ANY } },
    { "t", "-1", true, { PACKET_ANY } },
    { "t", "p1.2", true, { 2 } },
    { "t", "p1.-1", true, { PACKET_ANY } },
    { "t", "p-1.-1", true, { PACKET_ANY } },
    { "t", "p1", true, { PACKET_ANY } },
    { "t", "p-1", true, { PACKET_ANY } },
    { "t", "p", false },
    { "t", "p.2", false },
    { "t", "p1.", false },
    { "t", "-2", false },
    { "t", "", false },
    { "t", "-1x", false },
    { "ct", "g1", true, { 'g', 1 } },
    { "ct", "c-1", true, { 'c', PACKET_ANY } },
    { "ct", "\xff" "3", true, { 0xff, 3 } },
    { "ct", "g", false },
    { "ct", "", false },
    { "?:n", "", true },
    { "?:n", ":5", true, { 5 } },
    { "?:n", ":", false },
    { "?:n", "5", false },
    { "n?:n", "1", true, { 1 } },
    { "n?:n", "1:2", true, { 1, 2 } },
};

static void test_schemas(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(scenes); i++) {
        const struct scene *s = &scenes[i];
        struct packet_value values[PACKET_VALUES];
        g_autofree char *quoted = g_strescape(s->text, NULL);
        const char *last = NULL;

        g_test_message("%s: '%s'", s->schema, quoted);
        memset(values, 0xff, sizeof(values));
        g_assert_cmpint(packet_parse(s->schema, s->text, values), ==, s->ok);
        for (unsigned n = 0; s->ok && n < PACKET_VALUES; n++) {
            g_assert_cmphex(values[n].number, ==, s->numbers[n]);
            last = values[n].text ? values[n].text : last;
        }
        g_assert_true(!s->ok || !g_strcmp0(last, s->last));
    }
}

/* No text is read further than its end. */
static void test_cut(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(scenes); i++) {
        const struct scene *s = &scenes[i];

        for (size_t n = 0; n <= strlen(s->text); n++) {
            g_autofree char *cut = g_strndup(s->text, n);
            struct packet_value values[PACKET_VALUES];

            packet_parse(s->schema, cut, values);
        }
    }
}

static const struct packet table[] = {
    { "Z", "n" },
    { "c", "" },
    { "qCRC:", "n" },
    { "qC", "" },
    { "qRcmd,", "s" },
    { NULL },
};

static void check_found(const char *request, const char *name,
                        const char *rest)
{
    const char *text = NULL;
    const struct packet *p = packet_find(table, request, &text);

    g_assert_cmpstr(p ? p->name : NULL, ==, name);
    if (name) {
        g_assert_cmpstr(text, ==, rest);
    }
}

static void test_find(void)
{
    check_found("c", "c", "");
    check_found("c1000", NULL, NULL);
    check_found("qC", "qC", "");
    check_found("qCRC:1", "qCRC:", "1");
    check_found("qCR", NULL, NULL);
    check_found("Z0", "Z", "0");
    /* It is the request, whatever its arguments are. */
    check_found("Z", "Z", "");
    check_found("qRcmd,", "qRcmd,", "");
    check_found("qRcmd", NULL, NULL);
    check_found("", NULL, NULL);
    check_found("z0", NULL, NULL);
}

static void check_move(const char *actions, bool ok, bool step,
                       uint64_t thread)
{
    struct packet_move move;

    g_test_message("%s", actions);
    g_assert_cmpint(packet_move_parse(actions, &move), ==, ok);
    if (ok) {
        g_assert_cmpint(move.step, ==, step);
        g_assert_cmphex(move.thread, ==, thread);
    }
}

static void test_moves(void)
{
    check_move("c", true, false, PACKET_ANY);
    check_move("c:2", true, false, 2);
    check_move("C05:p1.2", true, false, 2);
    check_move("s", true, true, PACKET_ANY);
    check_move("s:3;c", true, true, 3);
    check_move("S0b:3;c:-1", true, true, 3);
    /* Wherever it is, a step decides, and the first one does. */
    check_move("c:1;s:2;s:3", true, true, 2);
    check_move("c:1;c:2", true, false, 1);
    check_move("", false, false, 0);
    check_move("c;", false, false, 0);
    check_move(";c", false, false, 0);
    check_move("x", false, false, 0);
    check_move("t:1", false, false, 0);
    check_move("s:1;r1000,1010:1", false, false, 0);
    check_move("C", false, false, 0);
    check_move("s05", false, false, 0);
    check_move("s:", false, false, 0);
    check_move("s:zz", false, false, 0);
}

static void test_number(void)
{
    const char *text = "10,fffffffffffffffff";
    uint64_t number = 7;

    g_assert_true(packet_number(&text, &number));
    g_assert_cmphex(number, ==, 0x10);
    g_assert_cmpstr(text, ==, ",fffffffffffffffff");
    g_assert_false(packet_number(&text, &number));
    text++;
    /* 68 bits */
    g_assert_false(packet_number(&text, &number));
    g_assert_cmpstr(text, ==, "fffffffffffffffff");
    g_assert_cmphex(number, ==, 0x10);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/packet/schemas", test_schemas);
    g_test_add_func("/packet/cut", test_cut);
    g_test_add_func("/packet/find", test_find);
    g_test_add_func("/packet/moves", test_moves);
    g_test_add_func("/packet/number", test_number);
    return g_test_run();
}
