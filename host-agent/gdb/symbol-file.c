/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The symbols of a guest's kernel, as an ELF file: see symbol-file.h
 *
 * gdb takes a symbol for one of code if its section has code, and finds none
 * for an address that no section has.  So there are sections without contents,
 * each for neighbours of one kind.
 */

#include <elf.h>
#include <string.h>

#include "gdb/symbol-file.h"
#include "lib/agent/names-private.h"
#include "util/quote.h"
#include "util/search.h"

/* Symbols further apart are in different sections. */
#define GAP             (2u << 20)
/* From here on kinds are not told apart: they change too often. */
#define MAX_SECTIONS    4096
/* The last symbol has no known end. */
#define LAST_SIZE       4096
/* User programs are below. */
#define KERNEL          (1ull << 63)

/*
 * A symbol, and when it is there; @other: at other times so is something else
 */
struct timed {
    struct btrail_symbol symbol;
    struct btrail_symbol_era era;
    bool other;
};

static int compare(gconstpointer a, gconstpointer b)
{
    const struct btrail_symbol *x = &((const struct timed *)a)->symbol;
    const struct btrail_symbol *y = &((const struct timed *)b)->symbol;

    return BTRAIL_COMPARE(x->address, y->address) ?:
           strcmp(x->name, y->name) ?: g_strcmp0(x->module, y->module);
}

/* Is there a time at which both are there? */
static bool meet(const struct timed *a, const struct timed *b)
{
    return a->era.kernel == b->era.kernel && a->era.from <= b->era.last &&
           b->era.from <= a->era.last;
}

/*
 * Notes symbols that are not alone: symbols of one time do not overlap, except
 * those that begin at one address.
 */
static void note_others(struct timed *all, unsigned n)
{
    uint64_t reach = 0;
    unsigned next;

    for (unsigned i = 0; i < n; i = next) {
        uint64_t end = 0;
        bool other = all[i].symbol.address < reach;

        for (next = i; next < n &&
             all[next].symbol.address == all[i].symbol.address; next++) {
            end = MAX(end, all[next].symbol.end);
            other |= !meet(&all[i], &all[next]);
        }
        other |= next < n && all[next].symbol.address < end;
        reach = MAX(reach, end);
        for (unsigned k = i; k < next; k++) {
            all[k].other = other;
        }
    }
}

GArray *symbol_file_symbols(const struct btrail_names *names)
{
    GArray *all = g_array_new(FALSE, FALSE, sizeof(struct timed));
    GArray *symbols = g_array_new(FALSE, FALSE, sizeof(struct btrail_symbol));
    struct timed *s, t = { .other = false };
    unsigned kept = 0;

    for (size_t i = 0; !btrail_names_symbol_era(names, i, &t.symbol, &t.era);
         i++) {
        if (t.symbol.address >= KERNEL) {
            g_array_append_val(all, t);
        }
    }
    g_array_sort(all, compare);
    /* Those that were there more than once, once */
    s = (struct timed *)all->data;
    for (unsigned i = 0; i < all->len; i++) {
        if (!i || compare(&s[i], &s[kept - 1])) {
            s[kept++] = s[i];
        }
    }
    note_others(s, kept);
    for (unsigned i = 0; i < kept; i++) {
        if (!s[i].other) {
            g_array_append_val(symbols, s[i].symbol);
        }
    }
    g_array_unref(all);
    return symbols;
}

static bool is_code(const struct btrail_symbol *s)
{
    return strchr("tTwW", s->type) && s->type;
}

/**
 * struct file - an ELF file in memory
 * @sections: of Elf64_Shdr
 * @names:    of the sections
 */
struct file {
    GArray *sections;
    GArray *symbols;
    GString *names;
    GString *strings;
};

static unsigned add_section(struct file *f, const char *name, Elf64_Shdr h)
{
    h.sh_name = f->names->len;
    g_string_append_len(f->names, name, strlen(name) + 1);
    g_array_append_val(f->sections, h);
    return f->sections->len - 1;
}

static void add_symbol(struct file *f, const struct btrail_symbol *s,
                       unsigned section, uint64_t end)
{
    g_autofree char *name = btrail_quote(s->name, "");
    Elf64_Sym symbol = {
        .st_name = f->strings->len,
        .st_info = ELF64_ST_INFO(STB_GLOBAL,
                                 is_code(s) ? STT_FUNC : STT_OBJECT),
        .st_shndx = section,
        .st_value = s->address,
        .st_size = end - s->address,
    };

    g_string_append_len(f->strings, name, strlen(name) + 1);
    g_array_append_val(f->symbols, symbol);
}

static void add_all(struct file *f, const GArray *symbols)
{
    const struct btrail_symbol *all = (void *)symbols->data;
    Elf64_Shdr *section = NULL;

    for (unsigned i = 0; i < symbols->len; i++) {
        const struct btrail_symbol *s = &all[i];
        bool last = i + 1 == symbols->len;
        uint64_t next = last ? UINT64_MAX : all[i + 1].address;
        /* Not past what follows, nor far if nothing does */
        uint64_t end = MAX(MIN(s->end, next), s->address);
        bool code = is_code(s);

        if (!section || s->address - section->sh_addr - section->sh_size >
            GAP || (f->sections->len < MAX_SECTIONS &&
                    code != !!(section->sh_flags & SHF_EXECINSTR))) {
            add_section(f, code ? ".text" : ".data", (Elf64_Shdr) {
                .sh_type = SHT_NOBITS,
                .sh_flags = SHF_ALLOC | (code ? SHF_EXECINSTR : SHF_WRITE),
                .sh_addr = s->address,
                .sh_addralign = 1,
            });
        }
        section = &g_array_index(f->sections, Elf64_Shdr,
                                 f->sections->len - 1);
        end = MIN(end, s->address + GAP);
        if (end == s->address && next > s->address) {
            end = MIN(next, s->address + MIN(LAST_SIZE, ~s->address));
        }
        section->sh_size = MAX(section->sh_size, end - section->sh_addr);
        add_symbol(f, s, f->sections->len - 1, end);
    }
}

static GByteArray *assemble(struct file *f)
{
    GByteArray *out = g_byte_array_new();
    Elf64_Ehdr head = {
        .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
                     ELFDATA2LSB, EV_CURRENT },
        .e_type = ET_EXEC,
        .e_machine = EM_X86_64,
        .e_version = EV_CURRENT,
        .e_ehsize = sizeof(head),
        .e_shentsize = sizeof(Elf64_Shdr),
    };
    uint64_t at = sizeof(head);
    unsigned last;

    add_section(f, ".symtab", (Elf64_Shdr) {
        .sh_type = SHT_SYMTAB,
        .sh_offset = at,
        .sh_size = f->symbols->len * sizeof(Elf64_Sym),
        .sh_link = f->sections->len + 1,
        .sh_info = 1,           /* the first global one */
        .sh_entsize = sizeof(Elf64_Sym),
        .sh_addralign = 8,
    });
    at += f->symbols->len * sizeof(Elf64_Sym);
    add_section(f, ".strtab", (Elf64_Shdr) {
        .sh_type = SHT_STRTAB,
        .sh_offset = at,
        .sh_size = f->strings->len,
        .sh_addralign = 1,
    });
    at += f->strings->len;
    last = add_section(f, ".shstrtab", (Elf64_Shdr) {
        .sh_type = SHT_STRTAB,
        .sh_offset = at,
        .sh_addralign = 1,
    });
    g_array_index(f->sections, Elf64_Shdr, last).sh_size = f->names->len;
    head.e_shoff = at + f->names->len;
    head.e_shnum = f->sections->len;
    head.e_shstrndx = last;
    g_byte_array_append(out, (void *)&head, sizeof(head));
    g_byte_array_append(out, (void *)f->symbols->data,
                        f->symbols->len * sizeof(Elf64_Sym));
    g_byte_array_append(out, (void *)f->strings->str, f->strings->len);
    g_byte_array_append(out, (void *)f->names->str, f->names->len);
    g_byte_array_append(out, (void *)f->sections->data,
                        f->sections->len * sizeof(Elf64_Shdr));
    return out;
}

bool symbol_file_write(const char *path, const GArray *symbols,
                       GError **error)
{
    struct file f = {
        .sections = g_array_new(FALSE, TRUE, sizeof(Elf64_Shdr)),
        .symbols = g_array_new(FALSE, TRUE, sizeof(Elf64_Sym)),
        .names = g_string_new_len("", 1),
        .strings = g_string_new_len("", 1),
    };
    g_autoptr(GByteArray) out = NULL;

    /* The first of each is nothing. */
    g_array_set_size(f.sections, 1);
    g_array_set_size(f.symbols, 1);
    add_all(&f, symbols);
    out = assemble(&f);
    g_array_unref(f.sections);
    g_array_unref(f.symbols);
    g_string_free(f.names, TRUE);
    g_string_free(f.strings, TRUE);
    return g_file_set_contents(path, (char *)out->data, out->len, error);
}

bool symbol_file_write_trace(const char *path,
                             const struct btrail_trace *trace, bool *any,
                             GError **error)
{
    struct btrail_names *names;
    int ret = btrail_names_open(&names, trace);
    GArray *symbols;
    bool ok;

    if (ret) {
        g_set_error(error, AGENT_ERROR, AGENT_ERROR_NAMES,
                    "the names of the trace: %s", btrail_strerror(ret));
        return false;
    }
    symbols = symbol_file_symbols(names);
    *any = symbols->len;
    ok = !*any || symbol_file_write(path, symbols, error);
    g_array_unref(symbols);
    btrail_names_close(names);
    return ok;
}
