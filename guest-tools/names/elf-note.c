/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The build-id of a program or library: see elf-note.h
 */

#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf-note.h"

#define SEGMENTS_MAX    64
#define NOTES_MAX       4096

/* What both classes have of a segment */
struct segment {
    uint32_t type;
    uint64_t offset;
    uint64_t size;
};

static bool read_at(int fd, void *data, size_t size, uint64_t at)
{
    return at <= INT64_MAX && pread(fd, data, size, (off_t)at) == (ssize_t)size;
}

static bool read_segment(int fd, bool wide, uint64_t at, struct segment *s)
{
    Elf64_Phdr p64;
    Elf32_Phdr p32;

    if (wide && read_at(fd, &p64, sizeof(p64), at)) {
        *s = (struct segment) { p64.p_type, p64.p_offset, p64.p_filesz };
        return true;
    }
    if (!wide && read_at(fd, &p32, sizeof(p32), at)) {
        *s = (struct segment) { p32.p_type, p32.p_offset, p32.p_filesz };
        return true;
    }
    return false;
}

/* Finds the build-id among notes. */
static unsigned find_note(const uint8_t *notes, size_t size, uint8_t *id)
{
    size_t at = 0;
    Elf64_Nhdr n;               /* that of 32 bits is the same */

    while (size - at >= sizeof(n)) {
        size_t name = at + sizeof(n), desc;

        memcpy(&n, notes + at, sizeof(n));
        if (n.n_namesz > size - name) {
            break;
        }
        desc = name + ((n.n_namesz + 3u) & ~3u);
        if (desc > size || n.n_descsz > size - desc) {
            break;
        }
        if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 &&
            !memcmp(notes + name, "GNU", 4) &&
            n.n_descsz <= BTRAIL_GUEST_BUILD_ID_MAX) {
            memcpy(id, notes + desc, n.n_descsz);
            return n.n_descsz;
        }
        at = desc + ((n.n_descsz + 3u) & ~3u);
        if (at > size) {
            break;
        }
    }
    return 0;
}

static unsigned read_notes(int fd, uint8_t *id)
{
    uint8_t notes[NOTES_MAX];
    unsigned char ident[EI_NIDENT];
    Elf64_Ehdr e64;
    Elf32_Ehdr e32;
    uint64_t table;
    unsigned n, step, found = 0;
    bool wide;

    if (!read_at(fd, ident, sizeof(ident), 0) ||
        memcmp(ident, ELFMAG, SELFMAG)) {
        return 0;
    }
    wide = ident[EI_CLASS] == ELFCLASS64;
    if (!(wide ? read_at(fd, &e64, sizeof(e64), 0) :
          read_at(fd, &e32, sizeof(e32), 0))) {
        return 0;
    }
    table = wide ? e64.e_phoff : e32.e_phoff;
    n = wide ? e64.e_phnum : e32.e_phnum;
    step = wide ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
    for (unsigned i = 0; i < n && i < SEGMENTS_MAX && !found; i++) {
        struct segment s;

        if (!read_segment(fd, wide, table + i * step, &s)) {
            break;
        }
        if (s.type == PT_NOTE && s.size <= sizeof(notes) &&
            read_at(fd, notes, (size_t)s.size, s.offset)) {
            found = find_note(notes, (size_t)s.size, id);
        }
    }
    return found;
}

int elf_note_open(const char *path, uint64_t inode,
                  uint8_t id[BTRAIL_GUEST_BUILD_ID_MAX], unsigned *size)
{
    struct stat st;
    char link[32];
    int place = open(path, O_PATH | O_CLOEXEC), fd = -1;

    /* To open a device that somebody has put there could do something. */
    if (place >= 0 && !fstat(place, &st) && S_ISREG(st.st_mode) &&
        (!inode || st.st_ino == inode)) {
        snprintf(link, sizeof(link), "/proc/self/fd/%d", place);
        fd = open(link, O_RDONLY | O_CLOEXEC);
    }
    if (place >= 0) {
        close(place);
    }
    *size = fd >= 0 ? read_notes(fd, id) : 0;
    return fd;
}

unsigned elf_note_build_id(const char *path, uint64_t inode,
                           uint8_t id[BTRAIL_GUEST_BUILD_ID_MAX])
{
    unsigned size;
    int fd = elf_note_open(path, inode, id, &size);

    if (fd >= 0) {
        close(fd);
    }
    return size;
}
