/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test the reader of what a guest says of its processes
 */

#include <string.h>

#include "backtrail/names.h"

#include "name-samples.h"

/* What was heard, as text */
static void note(void *opaque, const struct word *w)
{
    GString *s = opaque;

    g_string_append_printf(s, "%u", w->type);
    for (unsigned i = 0; i < 3 && w->type != BTRAIL_GUEST_SWITCHES; i++) {
        g_assert_cmpint(w->text[i][w->size[i]], ==, 0);
        g_string_append_printf(s, " '%s'", w->text[i]);
    }
    for (unsigned i = 0; w->list && i < w->switches.n; i++) {
        g_string_append_printf(s, " %u", w->list[i].pid);
    }
    g_string_append_c(s, '\n');
}

static GByteArray *sample(void)
{
    const struct btrail_guest_switch switches[] = {
        { 5, 70, 70 }, { 6, 0, 0 }, { 6, 71, 72 }, { 0 },
    };
    GByteArray *said = g_byte_array_new();

    say_hello(said, SAMPLE_NONCE, 0);
    say_listing(said, 1, false);
    say_process(said, 2, 70, "cat");
    say_mapping(said, 2, 70, 0x400000, 1, "/bin/cat");
    say_listing(said, 3, true);
    say_fork(said, 4, 70, 71);
    say_name(said, 5, 71, true, "sh");
    say_switches(said, 1, switches);
    say_symbols(said, 3, "0 t a\n");
    say_exit(said, 6, 71, 71);
    say_up_to(said, 7);
    return said;
}

static const char heard[] =
    "1 '6.12.0' '' ''\n"
    "2 '' '' ''\n"
    "3 'cat' '/bin/cat' ''\n"
    "4 'thread' '' ''\n"
    "5 '/bin/cat' 'abcd' ''\n"
    "2 '' '' ''\n"
    "6 '' '' ''\n"
    "8 'sh' '' ''\n"
    "9 70 0 71\n"
    "12 '0 t a\n' '' ''\n"
    "7 '' '' ''\n"
    "10 '' '' ''\n";

/* The same, however it is cut */
static void test_cuts(void)
{
    g_autoptr(GByteArray) said = sample();

    for (size_t step = 1; step <= said->len; step = step * 3 / 2 + 1) {
        struct name_reader *r = name_reader_new(SAMPLE_NONCE);
        g_autoptr(GString) text = g_string_new(NULL);
        char *why;

        for (size_t at = 0; at < said->len; at += step) {
            g_assert_true(name_reader_feed(r, said->data + at,
                                           MIN(step, said->len - at), note,
                                           text, &why));
        }
        g_assert_cmpstr(text->str, ==, heard);
        g_assert_true(name_reader_begun(r));
        name_reader_free(r);
    }
}

/* What is before the right HELLO is skipped. */
static void test_before(void)
{
    for (unsigned kind = 0; kind < 6; kind++) {
        struct name_reader *r = name_reader_new(SAMPLE_NONCE);
        g_autoptr(GString) text = g_string_new(NULL);
        g_autoptr(GByteArray) said = sample(), before = g_byte_array_new();
        g_autoptr(GByteArray) once = g_byte_array_new();
        char *why;

        switch (kind) {
        case 0:                 /* the rest of another conversation */
            say_hello(before, SAMPLE_NONCE + 1, 0);
            say_process(before, 2, 70, "cat");
            break;
        case 1:                 /* a message that was cut off by one */
            say_hello(once, SAMPLE_NONCE, 0);
            g_byte_array_append(before, once->data, once->len - 30);
            break;
        case 2:
            g_byte_array_set_size(before, 100000);
            memset(before->data, 0, before->len);
            break;
        case 3:
            g_byte_array_set_size(before, 100001);
            for (guint i = 0; i < before->len; i++) {
                before->data[i] = (uint8_t)g_random_int();
            }
            break;
        case 4:                 /* the beginning of one, again and again */
            for (unsigned i = 0; i < 1000; i++) {
                g_byte_array_append(before, said->data, 12 + i % 7);
            }
            break;
        }
        g_byte_array_append(before, said->data, said->len);
        g_assert_true(name_reader_feed(r, before->data, before->len, note,
                                       text, &why));
        g_assert_cmpstr(text->str, ==, heard);
        name_reader_free(r);
    }
}

static void check_refused(GByteArray *said, const char *want)
{
    struct name_reader *r = name_reader_new(SAMPLE_NONCE);
    g_autoptr(GString) text = g_string_new(NULL);
    g_autoptr(GByteArray) hello = g_byte_array_new();
    g_autofree char *why = NULL;

    say_hello(hello, SAMPLE_NONCE, 0);
    g_assert_true(name_reader_feed(r, hello->data, hello->len, note, text,
                                   &why));
    g_string_truncate(text, 0);
    g_assert_false(name_reader_feed(r, said->data, said->len, note, text,
                                    &why));
    g_assert_nonnull(strstr(why, want));
    g_assert_cmpstr(text->str, ==, "");
    g_byte_array_set_size(said, 0);
    name_reader_free(r);
}

static void test_malformed(void)
{
    g_autoptr(GByteArray) said = g_byte_array_new();
    struct btrail_guest_mapping mapping = { .start = 5, .end = 5 };
    struct btrail_guest_name name = { .comm_size = 4 };
    struct btrail_guest_lost lost = { .what = 4 };
    const struct btrail_guest_switch back[] = { { 6, 0, 0 }, { 5, 0, 0 },
                                                { 0 } };

    say(said, 0, "", 0, "");
    check_refused(said, "no message");
    say(said, 77, "", 0, "");
    check_refused(said, "no message");
    say(said, BTRAIL_GUEST_UP_TO, "1234567", 7, "");
    check_refused(said, "cut off");
    say(said, BTRAIL_GUEST_UP_TO, "12345678", 9, "");
    check_refused(said, "too long");
    say(said, BTRAIL_GUEST_NAME, &name, sizeof(name), "cat");
    check_refused(said, "a text is too long");
    say(said, BTRAIL_GUEST_NAME, &name, sizeof(name), "cats!");
    check_refused(said, "it is too long");
    name.comm_size = UINT32_MAX;
    say(said, BTRAIL_GUEST_NAME, &name, sizeof(name), "cat");
    check_refused(said, "a text is too long");
    name.comm_size = BTRAIL_GUEST_COMM_MAX + 1;
    say(said, BTRAIL_GUEST_NAME, &name, sizeof(name),
        "0123456789012345678901234567890123456789012345678901234567890123x");
    check_refused(said, "a text is too long");
    name.comm_size = 3;
    say(said, BTRAIL_GUEST_NAME, &name, sizeof(name), "cat");
    said->data[said->len - 2] = 0;
    check_refused(said, "zero byte");
    say(said, BTRAIL_GUEST_MAPPING, &mapping, sizeof(mapping), "");
    check_refused(said, "mapped");
    mapping.end = UINT64_C(1) << 63 | 1;
    say(said, BTRAIL_GUEST_MAPPING, &mapping, sizeof(mapping), "");
    check_refused(said, "mapped");
    mapping.end = 6;
    mapping.flags = 64;
    say(said, BTRAIL_GUEST_MAPPING, &mapping, sizeof(mapping), "");
    check_refused(said, "mapped");
    say(said, BTRAIL_GUEST_LOST, &lost, sizeof(lost), "");
    check_refused(said, "lost");
    say_switches(said, BTRAIL_GUEST_CPUS_MAX, back + 2);
    check_refused(said, "switches");
    say_switches(said, 0, back);
    check_refused(said, "backwards");
    say_switches(said, 0, back + 1);
    ((struct btrail_guest_switches *)(said->data + 8))->n = UINT32_MAX / 16;
    check_refused(said, "switches");
    say_hello(said, SAMPLE_NONCE, 0);
    ((struct btrail_guest_hello *)(said->data + 8))->version = 2;
    check_refused(said, "install the same release");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/name-reader/cuts", test_cuts);
    g_test_add_func("/name-reader/before", test_before);
    g_test_add_func("/name-reader/malformed", test_malformed);
    return g_test_run();
}
