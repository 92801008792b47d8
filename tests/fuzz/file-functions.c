/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: a file in the page cache of a guest
 *
 * The input is the file.  Whatever that is, its functions are a small ELF file,
 * made in bounded time of what is in it.
 */

#include <elf.h>
#include <glib.h>
#include <string.h>

#include "fake-linux.h"
#include "fuzz.h"
#include "guest-linux/file-functions.h"

#define PAGES   64
#define BUDGET  1000

int fuzz_input(const uint8_t *data, size_t size)
{
    static const uint8_t id[] = { 0x12, 0x34 };
    static uint8_t bytes[PAGES * GUEST_PAGE_SIZE];
    static struct fake_linux f;
    static struct linux_kernel *k;
    static struct guest_memory *m;
    struct linux_file file = { .budget = BUDGET };
    struct linux_functions found;
    Elf64_Ehdr h;

    if (!k) {
        k = fake_linux_begin(&f, 0, &m);
        fake_linux_file(&f, PAGES);
        fuzz_require(guest_memory_add_bytes(m, FAKE_FILE, sizeof(bytes),
                                            bytes));
    }
    size = MIN(size, sizeof(bytes));
    memcpy(bytes, data, size);
    memset(bytes + size, 0, sizeof(bytes) - size);
    linux_kernel_begin(k);
    file.k = k;
    file.mapping = f.mapping;
    linux_file_functions(&file, id, sizeof(id), &found);
    fuzz_require(!found.data == !found.n);
    if (found.data) {
        fuzz_accepted();
        fuzz_require(found.data->len <= LINUX_FUNCTIONS_MAX);
        memcpy(&h, found.data->data, sizeof(h));
        fuzz_require(h.e_shoff + h.e_shnum * sizeof(Elf64_Shdr) <=
                     found.data->len);
        g_byte_array_unref(found.data);
    }
    return 0;
}
