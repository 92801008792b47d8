/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What compilers add to the name of a function
 */

#include <glib.h>
#include <string.h>

#include "util/plain-name.h"

static const struct {
    const char *symbol;
    const char *plain;
} names[] = {
    { "finish_task_switch.isra.0", "finish_task_switch" },
    { "copy.constprop.12", "copy" },
    { "copy.constprop.0.isra.3", "copy" },
    { "copy.llvm.1234567890123456789", "copy" },
    { "copy.lto_priv.0", "copy" },
    { "copy", "copy" },
    { "", "" },
    /* A part, which nobody calls; and an addition to that */
    { "copy.cold", "copy.cold" },
    { "copy.part.0", "copy.part.0" },
    { "copy.isra.0.cold", "copy.isra.0.cold" },
    { "copy.part.0.isra.0", "copy.part.0" },
    /* Names with dots of their own */
    { "main.request", "main.request" },
    { "main.isra.x", "main.isra.x" },
    { "main.isra.", "main.isra." },
    { "main.isra.0x", "main.isra.0x" },
    { "a.b.isra.0", "a.b" },
    { ".isra.0", ".isra.0" },
};

static void test_plain(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        g_test_message("%s", names[i].symbol);
        g_assert_cmpuint(plain_name(names[i].symbol), ==,
                         strlen(names[i].plain));
        g_assert_true(g_str_has_prefix(names[i].symbol, names[i].plain));
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/plain-name/plain", test_plain);
    return g_test_run();
}
