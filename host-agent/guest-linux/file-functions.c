/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions of a file: see file-functions.h
 */

#include <elf.h>
#include <string.h>

#include "guest-linux/file-functions.h"
#include "util/functions-file.h"

#define SEGMENTS_MAX    FUNCTIONS_FILE_SEGMENTS
#define SECTIONS_MAX    1024
#define AREAS_MAX       FUNCTIONS_FILE_AREAS
#define AREA_NAME       24
#define DYNAMIC_MAX     512             /* entries */
#define SYMBOLS_MAX     (1u << 17)
#define STRINGS_MAX     (4u << 20)
#define NAME_SIZE_MAX   4096            /* of a function */

/* What has code: a section, or a segment if sections are not known */
struct file_code {
    uint64_t start, size;
    unsigned section;
    char name[AREA_NAME];
};

struct elf_reader {
    struct linux_file *file;
    Elf64_Ehdr header;
    Elf64_Phdr loads[SEGMENTS_MAX];
    unsigned n_loads;
    Elf64_Phdr dynamic;
    Elf64_Shdr sections[SECTIONS_MAX];
    unsigned n_sections;                /* 0 if they are not known */
    struct file_code areas[AREAS_MAX];
    unsigned n_areas;
    struct functions_file *found;
    bool whole;
};

/* Where a table of symbols is in the file */
struct file_symbols {
    uint64_t symbols, n, strings, strings_size;
};

static bool read_file(struct elf_reader *r, uint64_t offset, void *buf,
                      size_t size)
{
    bool good = linux_file_read(r->file, offset, buf, size);

    r->whole &= good;
    return good;
}

static void read_some(struct elf_reader *r, uint64_t offset, void *buf,
                      size_t size)
{
    r->whole &= linux_file_read_present(r->file, offset, buf, size);
}

static bool read_header(struct elf_reader *r)
{
    const Elf64_Ehdr *h = &r->header;

    return read_file(r, 0, &r->header, sizeof(r->header)) &&
           !memcmp(h->e_ident, ELFMAG, SELFMAG) &&
           h->e_ident[EI_DATA] == ELFDATA2LSB &&
           h->e_ident[EI_CLASS] == ELFCLASS64;
}

static bool read_segments(struct elf_reader *r)
{
    Elf64_Phdr all[SEGMENTS_MAX];
    unsigned n = r->header.e_phnum;

    if (n > SEGMENTS_MAX || r->header.e_phentsize != sizeof(*all) ||
        !read_file(r, r->header.e_phoff, all, n * sizeof(*all))) {
        return false;
    }
    for (unsigned i = 0; i < n; i++) {
        if (all[i].p_type == PT_DYNAMIC) {
            r->dynamic = all[i];
        } else if (all[i].p_type == PT_LOAD) {
            r->loads[r->n_loads++] = all[i];
        }
    }
    return r->n_loads;
}

static void read_sections(struct elf_reader *r)
{
    const Elf64_Ehdr *h = &r->header;

    if (h->e_shnum && h->e_shnum <= SECTIONS_MAX &&
        h->e_shentsize == sizeof(Elf64_Shdr) && h->e_shstrndx < h->e_shnum &&
        read_file(r, h->e_shoff, r->sections,
                  h->e_shnum * sizeof(Elf64_Shdr))) {
        r->n_sections = h->e_shnum;
    }
}

static struct file_code *add_area(struct elf_reader *r, uint64_t start,
                                  uint64_t size)
{
    struct file_code *a = &r->areas[r->n_areas];

    if (r->n_areas == AREAS_MAX || !size || size > UINT64_MAX - start) {
        return NULL;
    }
    r->n_areas++;
    *a = (struct file_code) { start, size, 0, ".text" };
    return a;
}

static void find_code(struct elf_reader *r)
{
    const uint64_t code = SHF_ALLOC | SHF_EXECINSTR;
    const Elf64_Shdr *names = &r->sections[r->n_sections ?
                                           r->header.e_shstrndx : 0];

    for (unsigned i = 0; i < r->n_sections; i++) {
        const Elf64_Shdr *s = &r->sections[i];
        struct file_code *a = (s->sh_flags & code) == code ?
                              add_area(r, s->sh_addr, s->sh_size) : NULL;

        if (a) {
            a->section = i;
            /* A reader of traces knows the linker's stubs by it. */
            if (s->sh_name < names->sh_size) {
                read_some(r, names->sh_offset + s->sh_name, a->name,
                          MIN(names->sh_size - s->sh_name,
                              sizeof(a->name) - 1));
            }
        }
    }
    for (unsigned i = 0; i < r->n_loads && !r->n_sections; i++) {
        if (r->loads[i].p_flags & PF_X) {
            add_area(r, r->loads[i].p_vaddr, r->loads[i].p_memsz);
        }
    }
}

/* The area that a function is in, counted from 0; -1 if it is no function */
static int area_of(const struct elf_reader *r, const Elf64_Sym *s)
{
    unsigned type = ELF64_ST_TYPE(s->st_info);

    /* In a segment there are labels of data, too. */
    if (s->st_shndx == SHN_UNDEF || s->st_shndx >= SHN_LORESERVE ||
        (type != STT_FUNC && type != STT_GNU_IFUNC &&
         (type != STT_NOTYPE || !r->n_sections))) {
        return -1;
    }
    for (unsigned i = 0; i < r->n_areas; i++) {
        const struct file_code *a = &r->areas[i];

        if (s->st_value >= a->start && s->st_value - a->start < a->size &&
            (!r->n_sections || s->st_shndx == a->section)) {
            return (int)i;
        }
    }
    return -1;
}

static void add_functions(struct elf_reader *r, const struct file_symbols *t)
{
    size_t n = MIN(t->n, SYMBOLS_MAX);
    size_t strings_size = MIN(t->strings_size, STRINGS_MAX);
    g_autofree Elf64_Sym *all = g_new(Elf64_Sym, n);
    g_autofree char *strings = g_malloc(strings_size + 1);

    read_some(r, t->symbols, all, n * sizeof(*all));
    read_some(r, t->strings, strings, strings_size);
    strings[strings_size] = '\0';
    for (size_t i = 0; i < n; i++) {
        Elf64_Sym s = all[i];
        int area = area_of(r, &s);
        const char *name = s.st_name < strings_size ? strings + s.st_name : "";
        size_t size = strnlen(name, NAME_SIZE_MAX) + 1;

        if (area < 0 || size == 1 || size > NAME_SIZE_MAX) {
            continue;
        }
        if (functions_file_size(r->found) + size + sizeof(s) >
            LINUX_FUNCTIONS_MAX - FUNCTIONS_FILE_REST) {
            break;
        }
        functions_file_add(r->found, (unsigned)area, &s, name);
    }
}

/* Adds those of a section; returns false if there is none of the type. */
static bool add_section(struct elf_reader *r, uint32_t type)
{
    for (unsigned i = 0; i < r->n_sections; i++) {
        const Elf64_Shdr *s = &r->sections[i], *strings;

        if (s->sh_type == type && s->sh_link < r->n_sections) {
            strings = &r->sections[s->sh_link];
            add_functions(r, &(struct file_symbols) {
                s->sh_offset, s->sh_size / sizeof(Elf64_Sym),
                strings->sh_offset, strings->sh_size,
            });
            return true;
        }
    }
    return false;
}

/* Where the file has what is loaded at an address; 0 if it has nothing there */
static uint64_t offset_of(const struct elf_reader *r, uint64_t address)
{
    for (unsigned i = 0; i < r->n_loads; i++) {
        const Elf64_Phdr *p = &r->loads[i];

        if (address >= p->p_vaddr && address - p->p_vaddr < p->p_filesz) {
            return p->p_offset + (address - p->p_vaddr);
        }
    }
    return 0;
}

static uint64_t count_hash(struct elf_reader *r, uint64_t table)
{
    uint32_t n;

    /* After the number of buckets, of symbols */
    return table && read_file(r, table + 4, &n, sizeof(n)) ? n : 0;
}

static uint64_t count_gnu_hash(struct elf_reader *r, uint64_t table)
{
    uint32_t head[3], last = 0, value = 0, n;
    g_autofree uint32_t *buckets = NULL;
    uint64_t at;

    /* Buckets, first symbol, words of the filter */
    if (!table || !read_file(r, table, head, sizeof(head))) {
        return 0;
    }
    n = MIN(head[0], SYMBOLS_MAX);
    at = table + 16 + head[2] * UINT64_C(8);
    buckets = g_new(uint32_t, n);
    read_some(r, at, buckets, n * sizeof(*buckets));
    for (uint32_t i = 0; i < n; i++) {
        last = MAX(last, buckets[i]);
    }
    /* The last chain ends with the last symbol. */
    at += head[0] * UINT64_C(4);
    while (last >= head[1] && last < SYMBOLS_MAX && !(value & 1) &&
           read_file(r, at + (last - head[1]) * UINT64_C(4), &value,
                     sizeof(value))) {
        last++;
    }
    return last;
}

/* Adds those that the dynamic linker needs, without the help of sections. */
static void add_dynamic(struct elf_reader *r)
{
    Elf64_Dyn all[DYNAMIC_MAX];
    uint64_t n = MIN(r->dynamic.p_filesz / sizeof(*all), DYNAMIC_MAX);
    uint64_t hash = 0, gnu_hash = 0;
    struct file_symbols t = { 0 };

    if (!n || !read_file(r, r->dynamic.p_offset, all, n * sizeof(*all))) {
        return;
    }
    for (uint64_t i = 0; i < n && all[i].d_tag != DT_NULL; i++) {
        uint64_t value = all[i].d_un.d_val;

        switch (all[i].d_tag) {
        case DT_SYMTAB:
            t.symbols = offset_of(r, value);
            break;
        case DT_STRTAB:
            t.strings = offset_of(r, value);
            break;
        case DT_STRSZ:
            t.strings_size = value;
            break;
        case DT_GNU_HASH:
            gnu_hash = offset_of(r, value);
            break;
        case DT_HASH:
            hash = offset_of(r, value);
            break;
        default:
            break;
        }
    }
    t.n = hash ? count_hash(r, hash) : count_gnu_hash(r, gnu_hash);
    if (t.symbols && t.strings) {
        add_functions(r, &t);
    }
}

/* What is found gets the segments and the ranges of code. */
static void add_places(struct elf_reader *r)
{
    for (unsigned i = 0; i < r->n_loads; i++) {
        functions_file_segment(r->found, &r->loads[i]);
    }
    for (unsigned i = 0; i < r->n_areas; i++) {
        functions_file_area(r->found, r->areas[i].start, r->areas[i].size,
                            r->areas[i].name);
    }
}

void linux_file_functions(struct linux_file *f, const uint8_t *build_id,
                          size_t size, struct linux_functions *result)
{
    g_autofree struct elf_reader *r = g_new0(struct elf_reader, 1);
    bool good;

    r->file = f;
    r->whole = true;
    good = read_header(r);
    r->found = functions_file_new(r->header.e_type,
                                  r->header.e_ident[EI_OSABI]);
    if (good && read_segments(r)) {
        read_sections(r);
        find_code(r);
        add_places(r);
        if (!r->n_sections) {
            add_dynamic(r);
        } else if (!add_section(r, SHT_SYMTAB) || !r->whole) {
            add_section(r, SHT_DYNSYM);
        }
    }
    *result = (struct linux_functions) {
        NULL, functions_file_count(r->found), r->whole,
    };
    if (result->n) {
        result->data = functions_file_make(r->found, build_id, size);
    }
    functions_file_free(r->found);
}
