/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Address spaces in the memory of a guest: see fake-space.h
 */

#include <elf.h>
#include <glib.h>
#include <string.h>

#include "fake-space.h"

#define PRESENT 1u
#define FRAME   UINT64_C(0x000ffffffffff000)

void fake_space_init(struct fake_space *s, size_t pages)
{
    /* The first page stays unused: a frame of 0 means that there is none. */
    *s = (struct fake_space) { NULL, pages, 1 };
    s->memory = g_malloc0(pages * GUEST_PAGE_SIZE);
}

void fake_space_clear(struct fake_space *s)
{
    g_free(s->memory);
}

struct guest_memory *fake_space_memory(const struct fake_space *s)
{
    struct guest_memory *m = guest_memory_new();

    g_assert(guest_memory_add_bytes(m, 0, s->pages * GUEST_PAGE_SIZE,
                                    s->memory));
    return m;
}

static uint64_t new_page(struct fake_space *s)
{
    g_assert(s->used < s->pages);
    return s->used++ * GUEST_PAGE_SIZE;
}

uint64_t fake_space_root(struct fake_space *s)
{
    return new_page(s);
}

uint8_t *fake_space_page(struct fake_space *s, uint64_t root,
                         uint64_t address)
{
    uint64_t table = root;
    unsigned shift;

    for (shift = 9 * FAKE_SPACE_LEVELS + 3; shift >= 12; shift -= 9) {
        uint64_t *entry = (uint64_t *)(s->memory + table) +
                          (address >> shift & 511);

        if (!*entry) {
            *entry = new_page(s) | PRESENT;
        }
        table = *entry & FRAME;
    }
    return s->memory + table;
}

void fake_space_put(struct fake_space *s, uint64_t root, uint64_t address,
                    const void *bytes, size_t size)
{
    const uint8_t *from = bytes;

    while (size) {
        size_t at = address % GUEST_PAGE_SIZE;
        size_t n = MIN(size, GUEST_PAGE_SIZE - at);

        memcpy(fake_space_page(s, root, address) + at, from, n);
        from += n;
        address += n;
        size -= n;
    }
}

static bool load(struct fake_space *s, uint64_t root, uint64_t bias,
                 const uint8_t *file, size_t size, uint32_t type,
                 uint64_t offset, uint64_t address, uint64_t n)
{
    uint64_t slack = address % GUEST_PAGE_SIZE;

    if (type != PT_LOAD) {
        return true;
    }
    if (slack > offset || offset > size || n > size - offset) {
        return false;
    }
    /* Whole pages of the file are mapped. */
    n = MIN((n + slack + GUEST_PAGE_SIZE - 1) & -(uint64_t)GUEST_PAGE_SIZE,
            size - (offset - slack));
    fake_space_put(s, root, bias + address - slack, file + offset - slack, n);
    return true;
}

bool fake_space_load(struct fake_space *s, uint64_t root, uint64_t bias,
                     const void *file, size_t size)
{
    const uint8_t *bytes = file;
    unsigned i;

    if (size < sizeof(Elf64_Ehdr) || memcmp(bytes, ELFMAG, SELFMAG)) {
        return false;
    }
    if (bytes[EI_CLASS] == ELFCLASS64) {
        const Elf64_Ehdr *h = file;

        for (i = 0; i < h->e_phnum; i++) {
            const Elf64_Phdr *p = (const Elf64_Phdr *)(bytes + h->e_phoff) + i;

            if (!load(s, root, bias, file, size, p->p_type, p->p_offset,
                      p->p_vaddr, p->p_filesz)) {
                return false;
            }
        }
    } else {
        const Elf32_Ehdr *h = file;

        for (i = 0; i < h->e_phnum; i++) {
            const Elf32_Phdr *p = (const Elf32_Phdr *)(bytes + h->e_phoff) + i;

            if (!load(s, root, bias, file, size, p->p_type, p->p_offset,
                      p->p_vaddr, p->p_filesz)) {
                return false;
            }
        }
    }
    return true;
}
