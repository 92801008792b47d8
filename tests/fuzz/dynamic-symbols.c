/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: the memory of a process that has a library
 *
 * The input is what is in memory from where the library's file begins.
 * Whatever that is, a search ends within the budget of its walk, and what is
 * not in memory is not said to be found.
 */

#include <glib.h>
#include <string.h>

#include "guest-linux/dynamic-symbols.h"
#include "fake-space.h"
#include "fuzz.h"

#define BASE        UINT64_C(0x7f0000000000)
#define PAGES       16
#define TABLES      5
#define BUDGET      50000

int fuzz_input(const uint8_t *data, size_t size)
{
    static const char *const names[] = { "sample_two_c", "sample_a", "x" };
    struct page_walk *walk = g_new(struct page_walk, 1);
    struct fake_space space;
    struct guest_memory *memory;
    uint64_t root;
    unsigned i;

    size = MIN(size, PAGES * GUEST_PAGE_SIZE);
    fake_space_init(&space, PAGES + TABLES);
    root = fake_space_root(&space);
    fake_space_put(&space, root, BASE, data, size);
    memory = fake_space_memory(&space);
    for (i = 0; i < G_N_ELEMENTS(names); i++) {
        uint64_t addresses[LINUX_SYMBOL_VERSIONS];
        enum linux_symbol s;
        unsigned n;

        page_walk_init(walk, memory, root, FAKE_SPACE_LEVELS, BUDGET);
        s = linux_dynamic_symbol(walk, BASE, names[i], addresses, &n);
        fuzz_require(n <= LINUX_SYMBOL_VERSIONS);
        fuzz_require((s == LINUX_SYMBOL_FOUND) == (n != 0));
        if (n) {
            /* Its name is there. */
            fuzz_require(memmem(data, size, names[i], strlen(names[i]) + 1));
            if (i == 0) {
                fuzz_accepted();
            }
        }
    }
    guest_memory_free(memory);
    fake_space_clear(&space);
    g_free(walk);
    return 0;
}
