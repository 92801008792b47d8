/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An ELF file with functions and no code: see functions-file.h
 */

#include <string.h>

#include "util/functions-file.h"

#define AREA_NAME   24

/* Sections before those of code, and after them */
enum { SECTION_NOTE = 1, SECTION_CODE = 2, SECTIONS_AFTER = 3 };

struct code_area {
    uint64_t start, size;
    char name[AREA_NAME];
};

struct functions_file {
    uint16_t type;
    uint8_t abi;
    Elf64_Phdr loads[FUNCTIONS_FILE_SEGMENTS];
    unsigned n_loads;
    struct code_area areas[FUNCTIONS_FILE_AREAS];
    unsigned n_areas;
    GByteArray *symbols, *names;
};

static uint32_t append_name(GByteArray *out, const char *name)
{
    uint32_t at = out->len;

    g_byte_array_append(out, (const uint8_t *)name, strlen(name) + 1);
    return at;
}

struct functions_file *functions_file_new(uint16_t type, uint8_t abi)
{
    static const Elf64_Sym none;
    struct functions_file *f = g_new0(struct functions_file, 1);

    f->type = type;
    f->abi = abi;
    f->symbols = g_byte_array_new();
    f->names = g_byte_array_new();
    g_byte_array_append(f->symbols, (const uint8_t *)&none, sizeof(none));
    append_name(f->names, "");
    return f;
}

void functions_file_free(struct functions_file *f)
{
    if (f) {
        g_byte_array_unref(f->symbols);
        g_byte_array_unref(f->names);
        g_free(f);
    }
}

void functions_file_segment(struct functions_file *f, const Elf64_Phdr *load)
{
    if (f->n_loads < FUNCTIONS_FILE_SEGMENTS) {
        f->loads[f->n_loads++] = *load;
    }
}

void functions_file_area(struct functions_file *f, uint64_t start,
                         uint64_t size, const char *name)
{
    if (f->n_areas < FUNCTIONS_FILE_AREAS) {
        struct code_area *a = &f->areas[f->n_areas++];

        a->start = start;
        a->size = size;
        g_strlcpy(a->name, name, sizeof(a->name));
    }
}

void functions_file_add(struct functions_file *f, unsigned area,
                        const Elf64_Sym *symbol, const char *name)
{
    Elf64_Sym s = *symbol;

    s.st_name = append_name(f->names, name);
    s.st_shndx = (uint16_t)(SECTION_CODE + area);
    g_byte_array_append(f->symbols, (const uint8_t *)&s, sizeof(s));
}

unsigned functions_file_count(const struct functions_file *f)
{
    return f->symbols->len / sizeof(Elf64_Sym) - 1;
}

size_t functions_file_size(const struct functions_file *f)
{
    return f->symbols->len + f->names->len;
}

static void append_note(GByteArray *out, const uint8_t *id, size_t size)
{
    static const uint8_t zeros[4];
    const Elf64_Nhdr note = { 4, (uint32_t)size, NT_GNU_BUILD_ID };

    g_byte_array_append(out, (const uint8_t *)&note, sizeof(note));
    g_byte_array_append(out, (const uint8_t *)"GNU", 4);
    g_byte_array_append(out, id, size);
    g_byte_array_append(out, zeros, -size % 4);
}

/* Symbols before the first that is not local */
static uint32_t count_local(const GByteArray *symbols)
{
    const Elf64_Sym *s = (const Elf64_Sym *)symbols->data;
    uint32_t n = symbols->len / sizeof(*s), i = 1;

    while (i < n && ELF64_ST_BIND(s[i].st_info) == STB_LOCAL) {
        i++;
    }
    return i;
}

GByteArray *functions_file_make(const struct functions_file *f,
                                const uint8_t *id, size_t size)
{
    unsigned n = SECTION_CODE + f->n_areas;
    g_autoptr(GByteArray) note = g_byte_array_new();
    g_autoptr(GByteArray) texts = g_byte_array_new();
    Elf64_Shdr sections[SECTION_CODE + FUNCTIONS_FILE_AREAS +
                        SECTIONS_AFTER] = { 0 };
    GByteArray *out = g_byte_array_new();
    uint64_t at = sizeof(Elf64_Ehdr) + (f->n_loads + 1) * sizeof(Elf64_Phdr);
    const Elf64_Ehdr h = {
        .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
                     ELFDATA2LSB, EV_CURRENT, f->abi },
        .e_type = f->type, .e_machine = EM_X86_64,
        .e_version = EV_CURRENT, .e_phoff = sizeof(h), .e_ehsize = sizeof(h),
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = (uint16_t)(f->n_loads + 1), .e_shoff = at,
        .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = (uint16_t)(n + SECTIONS_AFTER),
        .e_shstrndx = (uint16_t)(n + 2),
    };
    Elf64_Phdr p = { .p_type = PT_NOTE, .p_flags = PF_R, .p_align = 4 };

    at += (n + SECTIONS_AFTER) * sizeof(Elf64_Shdr);
    append_name(texts, "");
    append_note(note, id, size);
    p.p_offset = at;
    p.p_filesz = p.p_memsz = note->len;
    sections[SECTION_NOTE] = (Elf64_Shdr) {
        .sh_name = append_name(texts, ".note.gnu.build-id"),
        .sh_type = SHT_NOTE, .sh_flags = SHF_ALLOC, .sh_offset = at,
        .sh_size = note->len, .sh_addralign = 4,
    };
    for (unsigned i = 0; i < f->n_areas; i++) {
        sections[SECTION_CODE + i] = (Elf64_Shdr) {
            .sh_name = append_name(texts, f->areas[i].name),
            .sh_type = SHT_NOBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
            .sh_addr = f->areas[i].start, .sh_offset = at,
            .sh_size = f->areas[i].size, .sh_addralign = 1,
        };
    }
    at += note->len;
    sections[n] = (Elf64_Shdr) {
        .sh_name = append_name(texts, ".symtab"), .sh_type = SHT_SYMTAB,
        .sh_offset = at, .sh_size = f->symbols->len, .sh_link = n + 1,
        .sh_info = count_local(f->symbols), .sh_addralign = 1,
        .sh_entsize = sizeof(Elf64_Sym),
    };
    at += f->symbols->len;
    sections[n + 1] = (Elf64_Shdr) {
        .sh_name = append_name(texts, ".strtab"), .sh_type = SHT_STRTAB,
        .sh_offset = at, .sh_size = f->names->len, .sh_addralign = 1,
    };
    at += f->names->len;
    sections[n + 2] = (Elf64_Shdr) {
        .sh_name = append_name(texts, ".shstrtab"), .sh_type = SHT_STRTAB,
        .sh_offset = at, .sh_size = texts->len, .sh_addralign = 1,
    };
    g_byte_array_append(out, (const uint8_t *)&h, sizeof(h));
    g_byte_array_append(out, (const uint8_t *)f->loads,
                        f->n_loads * sizeof(f->loads[0]));
    g_byte_array_append(out, (const uint8_t *)&p, sizeof(p));
    g_byte_array_append(out, (const uint8_t *)sections,
                        (n + SECTIONS_AFTER) * sizeof(sections[0]));
    g_byte_array_append(out, note->data, note->len);
    g_byte_array_append(out, f->symbols->data, f->symbols->len);
    g_byte_array_append(out, f->names->data, f->names->len);
    g_byte_array_append(out, texts->data, texts->len);
    return out;
}
