/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fields of messages, against a reader that is made of Google's description,
 * and against its examples
 */

#include <string.h>

#include "cli/export/protobuf.h"
#include "timeline-reader.h"

static void check_bytes(const GByteArray *a, const char *want, size_t n)
{
    g_assert_cmpmem(a->data, a->len, want, n);
}

/* protobuf.dev, "Encoding": a is 150; b is "testing" */
static void test_documented(void)
{
    g_autoptr(GByteArray) a = g_byte_array_new();

    protobuf_varint(a, 1);
    check_bytes(a, "\x01", 1);
    protobuf_varint(a, 150);
    check_bytes(a, "\x01\x96\x01", 3);
    g_byte_array_set_size(a, 0);
    protobuf_number(a, 1, 150);
    check_bytes(a, "\x08\x96\x01", 3);
    g_byte_array_set_size(a, 0);
    protobuf_bytes(a, 2, "testing", 7);
    check_bytes(a, "\x12\x07testing", 9);
}

static void check_varint(uint64_t v)
{
    g_autoptr(GByteArray) a = g_byte_array_new();
    const uint8_t *at;

    protobuf_varint(a, v);
    at = a->data;
    g_assert_cmpuint(proto_varint(&at, a->data + a->len), ==, v);
    g_assert_true(at == a->data + a->len);
}

static void test_varint(void)
{
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t v = UINT64_C(1) << bit;

        check_varint(v - 1);
        check_varint(v);
        check_varint(v | g_test_rand_int());
    }
    check_varint(UINT64_MAX);
}

/* What is appended stands after what was there, in its order. */
static void test_fields(void)
{
    static const unsigned numbers[] = { 1, 15, 16, 2047, 2048, 536870911 };
    g_autoptr(GByteArray) a = g_byte_array_new();
    g_autoptr(GArray) fields = NULL;
    g_autofree char *large = g_malloc0(70000);

    for (unsigned i = 0; i < G_N_ELEMENTS(numbers); i++) {
        protobuf_number(a, numbers[i], i ? UINT64_MAX - i : 0);
        protobuf_bytes(a, numbers[i], "a\0b", i % 4);
    }
    protobuf_bytes(a, 7, large, 70000);
    fields = proto_read(a->data, a->len);
    g_assert_cmpuint(fields->len, ==, 2 * G_N_ELEMENTS(numbers) + 1);
    for (unsigned i = 0; i < G_N_ELEMENTS(numbers); i++) {
        const struct proto_field *f = &g_array_index(
            fields, struct proto_field, 2 * i);

        g_assert_cmpuint(f->number, ==, numbers[i]);
        g_assert_null(f->bytes);
        g_assert_cmpuint(f->value, ==, i ? UINT64_MAX - i : 0);
        f++;
        g_assert_cmpuint(f->number, ==, numbers[i]);
        g_assert_nonnull(f->bytes);
        g_assert_cmpmem(f->bytes, f->n, "a\0b", i % 4);
    }
    g_assert_cmpuint(proto_get(fields, 7, 0)->n, ==, 70000);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/protobuf/documented", test_documented);
    g_test_add_func("/protobuf/varint", test_varint);
    g_test_add_func("/protobuf/fields", test_fields);
    return g_test_run();
}
