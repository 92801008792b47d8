/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of guest-linux/missing-names.h: what is missing is said, and no more
 */

#include <glib.h>
#include <string.h>

#include "fake-linux.h"
#include "guest-linux/missing-names.h"

static void expect(struct linux_kernel *k, uint64_t unread, const char *want)
{
    g_auto(GStrv) list = missing_names(k, unread);

    g_assert_cmpuint(g_strv_length(list), ==, want ? 1 : 0);
    if (want) {
        g_assert_nonnull(strstr(list[0], want));
    }
}

static void test_missing(void)
{
    static const char current[] = "current_task";
    struct guest_memory *m;
    struct fake_linux f;
    struct linux_kernel *k = fake_linux_begin(&f, 0, &m);
    uint64_t wake;
    char *name;

    expect(k, 0, NULL);
    expect(k, 3 << 20, "3072 KiB of the guest's RAM cannot be read");
    wake = k->wake;
    k->wake = 0;
    expect(k, 0, "sched_waking and sched_wakeup_new is missing");
    k->wake = wake;
    /* Its layout says that tasks are not known: that was said then. */
    k->layout.task_flags = LINUX_NONE;
    expect(k, 0, NULL);
    g_ptr_array_add(k->missing, g_strdup("what the kernel lacks"));
    expect(k, 0, "what the kernel lacks");
    fake_linux_end(&f, m, k);

    fake_linux_init(&f, 0);
    name = memmem(f.memory, FAKE_SIZE, "__switch_to_asm", 15);
    g_assert_nonnull(name);
    *name = 'x';
    m = guest_memory_new();
    g_assert_true(guest_memory_add_bytes(m, 0, FAKE_SIZE, f.memory));
    k = fake_linux_find(m);
    g_assert_nonnull(k);
    expect(k, 0, current);
    fake_linux_end(&f, m, k);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/missing-names/missing", test_missing);
    return g_test_run();
}
