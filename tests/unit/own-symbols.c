/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols of a fake guest's kernel itself: guest-linux/own-symbols.h
 */

#include <glib.h>
#include <string.h>

#include "fake-linux.h"
#include "guest-linux/own-symbols.h"

static void add(void *opaque, const char *text, size_t size)
{
    g_string_append_len(opaque, text, (gssize)size);
}

static void test_text(void)
{
    struct guest_memory *m;
    struct fake_linux f;
    struct linux_kernel *k = fake_linux_begin(&f, 0, &m);
    g_autoptr(GString) text = g_string_new(NULL);

    linux_own_symbols(k, add, text);
    g_assert_true(g_str_has_prefix(text->str, "ffffffff81000000 T _stext\n"));
    g_assert_nonnull(strstr(text->str, "\nffffffff81000640 T s100\n"));
    g_assert_null(strchr(text->str, '['));
    /* Its last symbol, of which nothing says that it is not of code */
    g_assert_true(g_str_has_suffix(text->str, " e .end\n"));
    fake_linux_end(&f, m, k);
}

static void test_image(void)
{
    struct guest_memory *m;
    struct fake_linux f;
    struct linux_kernel *k = fake_linux_begin(&f, 0, &m);
    uint64_t start, end;

    g_assert_true(linux_image(k, &start, &end));
    g_assert_cmphex(start, ==, FAKE_STEXT);
    g_assert_cmphex(end, ==, FAKE_STEXT + GUEST_PAGE_SIZE);
    fake_linux_end(&f, m, k);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/own-symbols/text", test_text);
    g_test_add_func("/own-symbols/image", test_image);
    return g_test_run();
}
