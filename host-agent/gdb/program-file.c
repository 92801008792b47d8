/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What gdb needs of a program's file: see program-file.h
 */

#include <fcntl.h>
#include <gelf.h>
#include <glib.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gdb/program-file.h"
#include "util/apart.h"
#include "util/memory-limit.h"

/* Bytes of the copy, of all that is for lines unpacked, and of the process
 * beside what it has from us */
#define COPY_MAX    (UINT64_C(256) << 20)
#define LINES_MAX   (UINT64_C(1) << 30)
#define MEMORY_MAX  (UINT64_C(1) << 30)
#define FILE_MAX    (INT64_C(4) << 30)
#define SECONDS     5
#define BUILD_ID    4096
/* More need another form of the header. */
#define SECTIONS    0xff00
#define ALIGN       16

/* There is no need to know which other ones there may be. */
static const char *const lines[] = {
    ".debug_abbrev", ".debug_addr", ".debug_aranges", ".debug_info",
    ".debug_line", ".debug_line_str", ".debug_loc", ".debug_loclists",
    ".debug_ranges", ".debug_rnglists", ".debug_str", ".debug_str_offsets",
    ".debug_types", NULL
};
static const char *const unwinding[] = {
    ".eh_frame", ".debug_frame", NULL
};

enum need {
    NEED_NOTHING,
    NEED_PLACE,         /* only where it is */
    NEED_LINES,
    NEED_SYMBOLS,
};

struct copy {
    const char *from;
    const char *to;
    Elf *in;
    Elf *out;
    size_t names;       /* the section that has the names of all */
    enum need *needs;   /* of each section */
    uint64_t start;     /* the first address that is loaded */
    size_t n;
};

static enum need need_of(const struct copy *c, size_t index,
                         const GElf_Shdr *h)
{
    const char *name = elf_strptr(c->in, c->names, h->sh_name) ?: "";

    if (index == c->names || h->sh_type == SHT_SYMTAB ||
        h->sh_type == SHT_DYNSYM ||
        (h->sh_type == SHT_NOTE && !strcmp(name, ".note.gnu.build-id") &&
         h->sh_size <= BUILD_ID)) {
        return NEED_SYMBOLS;
    }
    if (h->sh_type == SHT_PROGBITS || h->sh_type == SHT_X86_64_UNWIND) {
        if (g_strv_contains(unwinding, name)) {
            return NEED_SYMBOLS;
        }
        /* The header of what is packed has the file's bits. */
        if (g_strv_contains(lines, name) &&
            (!(h->sh_flags & SHF_COMPRESSED) ||
             gelf_getclass(c->in) == ELFCLASS64)) {
            return NEED_LINES;
        }
    }
    return h->sh_flags & SHF_ALLOC ? NEED_PLACE : NEED_NOTHING;
}

/* How many bytes a section has in the copy, and gdb makes of it */
static bool sizes_of(Elf_Scn *section, const GElf_Shdr *h, uint64_t *size,
                     uint64_t *unpacked)
{
    GElf_Chdr packed;

    *size = *unpacked = h->sh_type == SHT_NOBITS ? 0 : h->sh_size;
    if (h->sh_flags & SHF_COMPRESSED) {
        if (!gelf_getchdr(section, &packed)) {
            return false;
        }
        *unpacked = packed.ch_size;
    }
    return true;
}

/* Says what is needed of each section, if that is no more than there may be. */
static bool choose(struct copy *c)
{
    uint64_t symbols = 0, with_lines = 0, unpacked = 0;
    bool packed = false;

    for (size_t i = 1; i < c->n; i++) {
        Elf_Scn *section = elf_getscn(c->in, i);
        uint64_t size, all;
        GElf_Shdr h;

        if (!section || !gelf_getshdr(section, &h) ||
            !sizes_of(section, &h, &size, &all)) {
            return false;
        }
        c->needs[i] = MAX(need_of(c, i, &h), c->needs[i]);
        if ((h.sh_type == SHT_SYMTAB || h.sh_type == SHT_DYNSYM) &&
            h.sh_link < c->n) {
            c->needs[h.sh_link] = NEED_SYMBOLS;
        }
    }
    for (size_t i = 1; i < c->n; i++) {
        Elf_Scn *section = elf_getscn(c->in, i);
        uint64_t size, all;
        GElf_Shdr h;

        gelf_getshdr(section, &h);
        sizes_of(section, &h, &size, &all);
        if (size > COPY_MAX || all > LINES_MAX) {
            size = COPY_MAX + 1;
            all = LINES_MAX + 1;
        }
        if (c->needs[i] == NEED_SYMBOLS) {
            symbols += size;
            packed |= h.sh_flags & SHF_COMPRESSED;
        } else if (c->needs[i] == NEED_LINES) {
            with_lines += size;
            unpacked += all;
        }
    }
    for (size_t i = 1; i < c->n && (symbols + with_lines > COPY_MAX ||
                                    unpacked > LINES_MAX); i++) {
        if (c->needs[i] == NEED_LINES) {
            c->needs[i] = NEED_NOTHING;
        }
    }
    return symbols <= COPY_MAX && !packed;
}

static bool copy_contents(Elf_Scn *from, Elf_Scn *to)
{
    Elf_Data *data = elf_rawdata(from, NULL), *out;

    if (!data) {
        return false;
    }
    out = data->d_size ? elf_newdata(to) : NULL;
    if (out) {
        out->d_buf = data->d_buf;
        out->d_size = data->d_size;
        out->d_type = ELF_T_BYTE;
        out->d_version = EV_CURRENT;
        out->d_align = 1;
    }
    return out || !data->d_size;
}

/*
 * gdb takes no library of a program of 32 bits where it debugs 64 bits: the
 * copy is one of 64, which only symbols differ in.
 */
static bool widen_symbols(Elf_Scn *from, Elf_Scn *to, GElf_Shdr *h)
{
    Elf_Data *data = elf_getdata(from, NULL), *out = elf_newdata(to);
    size_t n = data ? data->d_size / sizeof(Elf32_Sym) : 0;
    Elf64_Sym *symbols = g_new0(Elf64_Sym, n);

    for (size_t i = 0; i < n; i++) {
        if (!gelf_getsym(data, i, &symbols[i])) {
            return false;
        }
    }
    if (out) {
        h->sh_size = n * sizeof(*symbols);
        h->sh_entsize = sizeof(*symbols);
        out->d_buf = symbols;
        out->d_size = h->sh_size;
        out->d_type = ELF_T_SYM;
        out->d_version = EV_CURRENT;
        out->d_align = 1;
    }
    return out;
}

static bool copy_section(struct copy *c, size_t i)
{
    Elf_Scn *from = elf_getscn(c->in, i), *to = elf_newscn(c->out);
    GElf_Shdr h, out;

    if (!to || !gelf_getshdr(from, &h) || !gelf_getshdr(to, &out)) {
        return false;
    }
    if (c->needs[i] == NEED_NOTHING) {
        out.sh_type = SHT_NULL;
        return gelf_update_shdr(to, &out);
    }
    out = h;
    out.sh_offset = 0;
    out.sh_addralign = MIN(MAX(h.sh_addralign, 1), ALIGN);
    if (c->needs[i] == NEED_PLACE || h.sh_type == SHT_NOBITS) {
        Elf_Data *data = elf_newdata(to);

        out.sh_type = SHT_NOBITS;
        out.sh_link = out.sh_info = 0;
        if (!data) {
            return false;
        }
        data->d_size = h.sh_size;
        data->d_type = ELF_T_BYTE;
        data->d_version = EV_CURRENT;
        data->d_align = 1;
    } else if (gelf_getclass(c->in) == ELFCLASS32 &&
               (h.sh_type == SHT_SYMTAB || h.sh_type == SHT_DYNSYM)) {
        if (!widen_symbols(from, to, &out)) {
            return false;
        }
    } else if (!copy_contents(from, to)) {
        return false;
    }
    return gelf_update_shdr(to, &out);
}

/*
 * One segment that has all that is loaded: gdb places a library by its
 * segments.
 */
static bool add_segment(struct copy *c)
{
    GElf_Phdr segment = {
        .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_align = 1,
    };
    uint64_t end = 0;

    c->start = UINT64_MAX;
    for (size_t i = 1; i < c->n; i++) {
        GElf_Shdr h;

        gelf_getshdr(elf_getscn(c->in, i), &h);
        if (h.sh_flags & SHF_ALLOC && h.sh_size) {
            if (h.sh_addr + h.sh_size < h.sh_addr) {
                return false;
            }
            c->start = MIN(c->start, h.sh_addr);
            end = MAX(end, h.sh_addr + h.sh_size);
        }
    }
    if (!end || !gelf_newphdr(c->out, 1)) {
        return false;
    }
    segment.p_vaddr = segment.p_paddr = c->start;
    segment.p_memsz = end - c->start;
    return gelf_update_phdr(c->out, 0, &segment);
}

static bool write_all(struct copy *c)
{
    GElf_Ehdr in, out;

    if (!gelf_getehdr(c->in, &in) ||
        (in.e_machine != EM_X86_64 && in.e_machine != EM_386) ||
        in.e_ident[EI_DATA] != ELFDATA2LSB ||
        (in.e_type != ET_EXEC && in.e_type != ET_DYN) ||
        elf_getshdrnum(c->in, &c->n) || c->n < 2 || c->n > SECTIONS ||
        elf_getshdrstrndx(c->in, &c->names) || !c->names ||
        c->names >= c->n) {
        return false;
    }
    c->needs = g_new0(enum need, c->n);
    if (!choose(c) || !gelf_newehdr(c->out, ELFCLASS64) ||
        !gelf_getehdr(c->out, &out)) {
        return false;
    }
    out.e_ident[EI_DATA] = in.e_ident[EI_DATA];
    out.e_type = in.e_type;
    out.e_machine = EM_X86_64;
    out.e_version = EV_CURRENT;
    out.e_entry = in.e_entry;
    out.e_shstrndx = c->names;
    if (!gelf_update_ehdr(c->out, &out)) {
        return false;
    }
    for (size_t i = 1; i < c->n; i++) {
        if (!copy_section(c, i)) {
            return false;
        }
    }
    return add_segment(c) && elf_update(c->out, ELF_C_WRITE) >= 0;
}

/* The segment ends where the file does, so that what gdb reads is in it. */
static bool end_segment(int file)
{
    Elf *elf = elf_begin(file, ELF_C_RDWR, NULL);
    GElf_Phdr segment;
    struct stat st;
    bool ok = !fstat(file, &st) && gelf_getphdr(elf, 0, &segment);

    if (ok) {
        segment.p_filesz = st.st_size;
        elf_flagelf(elf, ELF_C_SET, ELF_F_LAYOUT);
        ok = gelf_update_phdr(elf, 0, &segment) &&
             elf_update(elf, ELF_C_WRITE) >= 0;
    }
    elf_end(elf);
    return ok;
}

static void limit(void)
{
    /* And the table of sections */
    const rlim_t size = COPY_MAX + SECTIONS * sizeof(Elf64_Shdr) + (1 << 20);

    memory_limit(MEMORY_MAX);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit) { size, size });
    setrlimit(RLIMIT_CPU, &(struct rlimit) { SECONDS, SECONDS });
}

static void copy(void *opaque, GByteArray *out)
{
    struct copy *c = opaque;
    struct stat st;
    int in = open(c->from, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int to = open(c->to, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    limit();
    elf_version(EV_CURRENT);
    if (in >= 0 && to >= 0 && !fstat(in, &st) && S_ISREG(st.st_mode) &&
        st.st_size <= FILE_MAX) {
        c->in = elf_begin(in, ELF_C_READ, NULL);
        c->out = elf_begin(to, ELF_C_WRITE, NULL);
        if (c->in && elf_kind(c->in) == ELF_K_ELF && c->out && write_all(c) &&
            end_segment(to)) {
            g_byte_array_append(out, (const void *)&c->start,
                                sizeof(c->start));
        }
    }
}

static bool has_time(void *opaque)
{
    return g_get_monotonic_time() < *(const gint64 *)opaque;
}

bool program_file_copy(const char *from, const char *to, uint64_t *start)
{
    g_autofree char *part = g_strconcat(to, ".part", NULL);
    struct copy c = { .from = from, .to = part };
    gint64 end = g_get_monotonic_time() + SECONDS * G_USEC_PER_SEC;
    g_autoptr(GByteArray) done = apart_run(copy, &c, has_time, &end);

    if (done && done->len == sizeof(*start) && !rename(part, to)) {
        memcpy(start, done->data, sizeof(*start));
        return true;
    }
    unlink(part);
    return false;
}
