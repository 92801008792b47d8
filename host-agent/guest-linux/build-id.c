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
    bool wide;
    uint64_t table, entry, n, i;

    if (size < sizeof(Elf64_Ehdr) || memcmp(bytes, ELFMAG, SELFMAG) ||
        bytes[EI_DATA] != ELFDATA2LSB) {
        return 0;
    }
    wide = bytes[EI_CLASS] == ELFCLASS64;
    if (wide) {
        Elf64_Ehdr h;

        memcpy(&h, bytes, sizeof(h));
        table = h.e_phoff;
        entry = sizeof(Elf64_Phdr);
        n = h.e_phentsize == entry ? h.e_phnum : 0;
    } else {
        Elf32_Ehdr h;

        memcpy(&h, bytes, sizeof(h));
        table = h.e_phoff;
        entry = sizeof(Elf32_Phdr);
        n = h.e_phentsize == entry ? h.e_phnum : 0;
    }
    if (table > size) {
        return 0;
    }
    n = MIN(n, (size - table) / entry);
    for (i = 0; i < n; i++) {
        uint64_t type, offset, length;
        size_t found;

        if (wide) {
            Elf64_Phdr p;

            memcpy(&p, bytes + table + i * entry, sizeof(p));
            type = p.p_type;
            offset = p.p_offset;
            length = p.p_filesz;
        } else {
            Elf32_Phdr p;

            memcpy(&p, bytes + table + i * entry, sizeof(p));
            type = p.p_type;
            offset = p.p_offset;
            length = p.p_filesz;
        }
        if (type != PT_NOTE || offset > size) {
            continue;
        }
        found = find_note(bytes + offset, MIN(length, size - offset), id);
        if (found) {
            return found;
        }
    }
    return 0;
}
