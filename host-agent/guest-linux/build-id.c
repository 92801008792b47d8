/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Build-ids: see build-id.h
 */

#include <elf.h>
#include <glib.h>
#include <stdbool.h>
#include <string.h>

#include "guest-linux/build-id.h"

static size_t find_note(const uint8_t *p, size_t size,
                        uint8_t id[BUILD_ID_MAX])
{
    while (size >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr note;
        uint64_t name, bytes;

        memcpy(&note, p, sizeof(note));
        name = ((uint64_t)note.n_namesz + 3) & ~UINT64_C(3);
        bytes = ((uint64_t)note.n_descsz + 3) & ~UINT64_C(3);
        p += sizeof(note);
        size -= sizeof(note);
        if (name > size || bytes > size - name) {
            return 0;
        }
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            !memcmp(p, "GNU", 4) && note.n_descsz <= BUILD_ID_MAX) {
            memcpy(id, p + name, note.n_descsz);
            return note.n_descsz;
        }
        p += name + bytes;
        size -= name + bytes;
    }
    return 0;
}

size_t build_id_find(const void *image, size_t size, uint8_t id[BUILD_ID_MAX])
{
    const uint8_t *bytes = image;
    union {
        Elf64_Ehdr wide;
        Elf32_Ehdr narrow;
    } h;
    uint64_t table, entry, n, i;
    bool wide;

    if (size < sizeof(h) || memcmp(bytes, ELFMAG, SELFMAG) ||
        bytes[EI_DATA] != ELFDATA2LSB) {
        return 0;
    }
    memcpy(&h, bytes, sizeof(h));
    wide = bytes[EI_CLASS] == ELFCLASS64;
    table = wide ? h.wide.e_phoff : h.narrow.e_phoff;
    entry = wide ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
    n = wide ? h.wide.e_phnum : h.narrow.e_phnum;
    if (table > size || entry != (wide ? h.wide.e_phentsize :
                                  h.narrow.e_phentsize)) {
        return 0;
    }
    n = MIN(n, (size - table) / entry);
    for (i = 0; i < n; i++) {
        union {
            Elf64_Phdr wide;
            Elf32_Phdr narrow;
        } p;
        uint64_t offset, length;
        size_t found;

        memcpy(&p, bytes + table + i * entry, entry);
        offset = wide ? p.wide.p_offset : p.narrow.p_offset;
        length = wide ? p.wide.p_filesz : p.narrow.p_filesz;
        if ((wide ? p.wide.p_type : p.narrow.p_type) != PT_NOTE ||
            offset > size) {
            continue;
        }
        found = find_note(bytes + offset, MIN(length, size - offset), id);
        if (found) {
            return found;
        }
    }
    return 0;
}
