/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: nested page tables
 *
 * The input changes the memory of a guest, in whose pages 1 to 4 are tables of
 * four levels that map page 8 and some after it: the number of levels, the page
 * of the root, and then writes, each a u24 offset, a u8 length and this many
 * bytes.  Whatever it has, what is found is there, and that takes bounded time.
 */

#include <glib.h>
#include <string.h>

#include "fuzz.h"
#include "guest-linux/nested-memory.h"

#define PAGES       32u
#define SIZE        (PAGES * GUEST_PAGE_SIZE)
#define LOOKED_AT   20000
#define MAX_FOUND   64
#define SOUGHT      "SOUGHT"

static void put(uint8_t *bytes, unsigned page, unsigned index, unsigned to)
{
    uint64_t entry = GUINT64_TO_LE((uint64_t)to * GUEST_PAGE_SIZE | 7);

    memcpy(bytes + page * GUEST_PAGE_SIZE + index * sizeof(entry), &entry,
           sizeof(entry));
}

static void make_tables(uint8_t *bytes)
{
    memset(bytes, 0, SIZE);
    for (unsigned page = 1; page < 4; page++) {
        put(bytes, page, 0, page + 1);
    }
    for (unsigned i = 0; i < 8; i++) {
        put(bytes, 4, i, 15 - i);
    }
    memcpy(bytes + 9 * GUEST_PAGE_SIZE, SOUGHT, strlen(SOUGHT));
}

static void change(uint8_t *bytes, const uint8_t *data, size_t size)
{
    while (size >= 4) {
        uint32_t offset = (uint32_t)(data[0] | data[1] << 8 | data[2] << 16);
        size_t n = MIN(data[3], size - 4);

        if (offset < SIZE) {
            memcpy(bytes + offset, data + 4, MIN(n, SIZE - offset));
        }
        data += 4 + n;
        size -= 4 + n;
    }
}

/* What is read is what is in RAM at its place. */
static void look_at(struct nested_memory *n, const uint8_t *bytes,
                    uint64_t address)
{
    uint64_t place = nested_memory_place(n, address);
    uint8_t buf[2 * GUEST_PAGE_SIZE];
    bool read = guest_memory_read(nested_memory_view(n), address, buf, 1);

    fuzz_require(read == (place < SIZE));
    fuzz_require(!read || buf[0] == bytes[place]);
    guest_memory_read(nested_memory_view(n), address, buf, sizeof(buf));
}

int fuzz_input(const uint8_t *data, size_t size)
{
    static uint8_t bytes[SIZE];
    uint64_t found = 0, next, last;
    struct guest_memory *ram;
    struct nested_memory *n;
    unsigned levels;

    if (size < 2) {
        return 0;
    }
    levels = data[0] & 1 ? 5 : 4;
    make_tables(bytes);
    change(bytes, data + 2, size - 2);
    ram = guest_memory_new();
    fuzz_require(guest_memory_add_bytes(ram, 0, SIZE, bytes));
    n = nested_memory_new(ram, (uint64_t)data[1] * GUEST_PAGE_SIZE,
                          LOOKED_AT);
    nested_memory_set_levels(n, levels);
    last = UINT64_C(1) << (levels == 5 ? 56 : 47);
    for (unsigned i = 0; i < MAX_FOUND; i++) {
        char buf[sizeof(SOUGHT) - 1];

        next = guest_memory_find_page(nested_memory_view(n), found, SOUGHT,
                                      strlen(SOUGHT));
        if (next == UINT64_MAX) {
            break;
        }
        fuzz_accepted();
        fuzz_require(next >= found && next % GUEST_PAGE_SIZE == 0);
        /* Half of what the tables could map has no canonical address. */
        fuzz_require(next >= last ||
                     (guest_memory_read(nested_memory_view(n), next, buf,
                                        sizeof(buf)) &&
                      !memcmp(buf, SOUGHT, sizeof(buf))));
        look_at(n, bytes, next);
        found = next + GUEST_PAGE_SIZE;
    }
    for (unsigned i = 0; i < 16; i++) {
        look_at(n, bytes, (uint64_t)i * GUEST_PAGE_SIZE + i);
        look_at(n, bytes, (UINT64_C(1) << (4 * i)) - 1);
    }
    nested_memory_free(n);
    guest_memory_free(ram);
    return 0;
}
