/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ELF files: see elf-file.h
 */

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <glib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbolize/elf-file.h"
#include "util/function-name.h"
#include "util/hash.h"
#include "util/plain-name.h"
#include "util/search.h"

/*
 * All names of a table are no longer than their strings, and this for each,
 * since some are equal.  In a hostile file they are parts of one long name.
 */
#define NAME_SIZE   64

/* Names that are searched in a file at a time */
#define MAX_ASKED   64

/* Bytes of a file, which can be sparse, and of symbols, or their names, in it */
#define FILE_MAX    (INT64_C(4) << 30)
#define SYMBOLS_MAX (UINT64_C(512) << 20)

struct elf_segment {
    uint64_t offset;
    uint64_t address;
    uint64_t size;              /* in the file */
    bool writable;
};

struct unit {
    uint64_t start;
    uint64_t end;
    Dwarf_Die die;
};

/* Another name of the symbol with this index */
struct elf_alias {
    const char *name;
    unsigned index;
};

struct elf_file {
    int fd;
    Elf *elf;
    struct elf_file_info info;
    GArray *segments;           /* of struct elf_segment */
    GArray *symbols;            /* of struct elf_symbol; NULL: not read yet */
    GArray *aliases;            /* of struct elf_alias */
    GHashTable *by_name;
    GHashTable *asked;          /* of names, GArray of unsigned */
    GStringChunk *plain_names;  /* of symbols that have additions */
    Dwarf *dwarf;
    bool dwarf_tried;
    GStringChunk *paths;
    GArray *units;              /* of struct unit, in order of address */
    bool no_bytes;
    struct elf_file *debug;
};

static void read_build_id(struct elf_file *f)
{
    const void *id;
    ssize_t n = dwelf_elf_gnu_build_id(f->elf, &id), i;
    GString *text;

    if (n <= 0 || n > 64) {
        return;
    }
    text = g_string_new(NULL);
    for (i = 0; i < n; i++) {
        g_string_append_printf(text, "%02x", ((const uint8_t *)id)[i]);
    }
    f->info.build_id = g_string_free(text, FALSE);
}

/* Does a file have only debugging information, and no code? */
static bool is_stripped_off(const struct elf_file *f)
{
    Elf_Scn *section = NULL;
    GElf_Shdr shdr;

    while ((section = elf_nextscn(f->elf, section))) {
        if (gelf_getshdr(section, &shdr) && shdr.sh_type == SHT_NOBITS &&
            shdr.sh_flags & SHF_EXECINSTR) {
            return true;
        }
    }
    return false;
}

static void read_elf_segments(struct elf_file *f)
{
    uint64_t first = UINT64_MAX;
    size_t i, n;

    f->segments = g_array_new(FALSE, FALSE, sizeof(struct elf_segment));
    if (elf_getphdrnum(f->elf, &n)) {
        return;
    }
    for (i = 0; i < n; i++) {
        struct elf_segment s;
        GElf_Phdr phdr;

        if (!gelf_getphdr(f->elf, i, &phdr) || phdr.p_type != PT_LOAD) {
            continue;
        }
        s = (struct elf_segment) { phdr.p_offset, phdr.p_vaddr,
                                   phdr.p_filesz, phdr.p_flags & PF_W };
        first = MIN(first, phdr.p_vaddr);
        if (f->no_bytes && !phdr.p_filesz) {
            /*
             * A file with what was stripped off does not say where this was.
             * Most linkers place code so.
             */
            s.offset = phdr.p_vaddr - first;
            s.size = phdr.p_memsz;
        }
        g_array_append_val(f->segments, s);
    }
}

struct elf_file *elf_file_open(const char *path)
{
    struct elf_file *f;
    struct stat st;
    GElf_Ehdr ehdr;
    const char *link;
    GElf_Word crc;
    int fd;

    elf_version(EV_CURRENT);
    /* A guest's image may have a FIFO where a file is expected. */
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return NULL;
    }
    f = g_new0(struct elf_file, 1);
    f->fd = fd;
    f->info.path = g_strdup(path);
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size <= FILE_MAX) {
        f->elf = elf_begin(fd, ELF_C_READ, NULL);
    }
    if (!f->elf || elf_kind(f->elf) != ELF_K_ELF ||
        !gelf_getehdr(f->elf, &ehdr) ||
        (ehdr.e_machine != EM_X86_64 && ehdr.e_machine != EM_386)) {
        elf_file_close(f);
        errno = ENOEXEC;
        return NULL;
    }
    f->info.bits = ehdr.e_machine == EM_X86_64 ? 64 : 32;
    read_build_id(f);
    link = dwelf_elf_gnu_debuglink(f->elf, &crc);
    f->info.debug_link = g_strdup(link);
    f->no_bytes = is_stripped_off(f);
    read_elf_segments(f);
    return f;
}

static void drop_symbols(struct elf_file *f)
{
    g_clear_pointer(&f->by_name, g_hash_table_unref);
    g_clear_pointer(&f->asked, g_hash_table_unref);
    g_clear_pointer(&f->plain_names, g_string_chunk_free);
    g_clear_pointer(&f->symbols, g_array_unref);
    g_clear_pointer(&f->aliases, g_array_unref);
}

void elf_file_close(struct elf_file *f)
{
    if (!f) {
        return;
    }
    elf_file_close(f->debug);
    g_clear_pointer(&f->units, g_array_unref);
    dwarf_end(f->dwarf);
    g_clear_pointer(&f->paths, g_string_chunk_free);
    drop_symbols(f);
    g_clear_pointer(&f->segments, g_array_unref);
    elf_end(f->elf);
    close(f->fd);
    g_free(f->info.path);
    g_free(f->info.build_id);
    g_free(f->info.debug_link);
    g_free(f);
}

const struct elf_file_info *elf_file_info(const struct elf_file *f)
{
    return &f->info;
}

static Elf_Scn *find_section(const struct elf_file *f, GElf_Word type,
                             const char *name, GElf_Shdr *shdr)
{
    Elf_Scn *section = NULL;
    size_t strings;

    if (elf_getshdrstrndx(f->elf, &strings)) {
        return NULL;
    }
    while ((section = elf_nextscn(f->elf, section))) {
        if (!gelf_getshdr(section, shdr) || shdr->sh_type != type) {
            continue;
        }
        if (!name || !g_strcmp0(elf_strptr(f->elf, strings, shdr->sh_name),
                                name)) {
            return section;
        }
    }
    return NULL;
}

bool elf_file_has_symbols(const struct elf_file *f)
{
    GElf_Shdr shdr;

    return find_section(f, SHT_SYMTAB, NULL, &shdr);
}

bool elf_file_has_lines(const struct elf_file *f)
{
    GElf_Shdr shdr;

    return find_section(f, SHT_PROGBITS, ".debug_line", &shdr);
}

void elf_file_set_debug(struct elf_file *f, struct elf_file *debug)
{
    elf_file_close(f->debug);
    f->debug = debug;
    drop_symbols(f);
}

bool elf_file_address(const struct elf_file *f, uint64_t offset,
                      uint64_t *address)
{
    for (unsigned i = 0; i < f->segments->len; i++) {
        const struct elf_segment *s = &g_array_index(f->segments,
                                                     struct elf_segment, i);
        /* A mapping begins with the page that its segment begins in. */
        uint64_t slack = s->offset & 4095;

        if (offset >= s->offset - slack &&
            offset - (s->offset - slack) < s->size + slack) {
            *address = s->address + (offset - s->offset);
            return true;
        }
    }
    return false;
}

/* The segment that is loaded at @address, or NULL */
static const struct elf_segment *find_segment(const struct elf_file *f,
                                              uint64_t address)
{
    for (unsigned i = 0; i < f->segments->len; i++) {
        const struct elf_segment *s = &g_array_index(f->segments,
                                                     struct elf_segment, i);

        if (address >= s->address && address - s->address < s->size) {
            return s;
        }
    }
    return NULL;
}

bool elf_file_offset(const struct elf_file *f, uint64_t address,
                     uint64_t *offset)
{
    const struct elf_segment *s = find_segment(f, address);

    if (s) {
        *offset = s->offset + (address - s->address);
    }
    return s;
}

size_t elf_file_read(const struct elf_file *f, uint64_t address, void *buf,
                     size_t n)
{
    const struct elf_segment *s = f->no_bytes ? NULL :
                                  find_segment(f, address);
    uint64_t skip = s ? address - s->address : 0;
    ssize_t got = s && s->offset + skip <= INT64_MAX ?
                  pread(f->fd, buf, MIN(n, s->size - skip),
                        s->offset + skip) : 0;

    return MAX(got, 0);
}

size_t elf_file_read_constant(const struct elf_file *f, uint64_t address,
                              void *buf, size_t n)
{
    const struct elf_segment *s = find_segment(f, address);

    return s && !s->writable ? elf_file_read(f, address, buf, n) : 0;
}

/*
 * Symbols
 */

/*
 * Candidates for the name of an address.  The better one has a lower rank.
 * From LABEL on, the end of the function is not known, or if it is a function.
 */
#define LABEL       4
#define STUBS       8

struct candidate {
    struct elf_symbol symbol;
    unsigned rank;
};

static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    return BTRAIL_COMPARE(x->symbol.start, y->symbol.start) ?:
           BTRAIL_COMPARE(x->rank, y->rank) ?:
           strcmp(x->symbol.name, y->symbol.name);
}

/* The end of a symbol's section; 0 if the section has no code */
static uint64_t code_end(const struct elf_file *f, const GElf_Sym *sym)
{
    Elf_Scn *section = elf_getscn(f->elf, sym->st_shndx);
    GElf_Shdr shdr;

    if (sym->st_shndx == SHN_UNDEF || sym->st_shndx >= SHN_LORESERVE ||
        !section || !gelf_getshdr(section, &shdr) ||
        !(shdr.sh_flags & SHF_EXECINSTR) ||
        sym->st_value < shdr.sh_addr ||
        sym->st_value - shdr.sh_addr >= shdr.sh_size) {
        return 0;
    }
    return shdr.sh_addr + shdr.sh_size;
}

static void read_symbol_table(const struct elf_file *f, GElf_Word type,
                              GArray *all)
{
    GElf_Shdr shdr;
    Elf_Scn *section = find_section(f, type, NULL, &shdr);
    Elf_Data *data;
    GElf_Shdr strings;
    uint64_t room;
    int i, n;

    if (!section || !shdr.sh_entsize || shdr.sh_size > SYMBOLS_MAX ||
        !gelf_getshdr(elf_getscn(f->elf, shdr.sh_link), &strings) ||
        strings.sh_size > SYMBOLS_MAX) {
        return;
    }
    data = elf_getdata(section, NULL);
    if (!data) {
        return;
    }
    n = MIN(data->d_size / shdr.sh_entsize, INT_MAX);
    room = MIN(strings.sh_size, UINT32_MAX) + (uint64_t)n * NAME_SIZE;
    for (i = 0; i < n; i++) {
        struct candidate c;
        uint64_t limit;
        GElf_Sym sym;
        unsigned kind;
        size_t size;

        if (!gelf_getsym(data, i, &sym)) {
            break;
        }
        kind = GELF_ST_TYPE(sym.st_info);
        if (kind != STT_FUNC && kind != STT_GNU_IFUNC && kind != STT_NOTYPE) {
            continue;
        }
        limit = code_end(f, &sym);
        c.symbol.name = elf_strptr(f->elf, shdr.sh_link, sym.st_name);
        if (!limit || !c.symbol.name || !*c.symbol.name) {
            continue;
        }
        size = strlen(c.symbol.name) + 1;
        if (size > room) {
            break;
        }
        room -= size;
        c.symbol.start = sym.st_value;
        c.symbol.end = sym.st_size && sym.st_size < limit - sym.st_value ?
                       sym.st_value + sym.st_size : limit;
        c.rank = (kind == STT_NOTYPE || !sym.st_size ? LABEL : 0) |
                 (GELF_ST_BIND(sym.st_info) == STB_LOCAL) << 1 |
                 (GELF_ST_BIND(sym.st_info) == STB_WEAK);
        g_array_append_val(all, c);
    }
}

/* Adds the linker's stubs, which have no symbols. */
static void read_plts(const struct elf_file *f, GArray *all)
{
    Elf_Scn *section = NULL;
    size_t strings;
    GElf_Shdr shdr;

    if (elf_getshdrstrndx(f->elf, &strings)) {
        return;
    }
    while ((section = elf_nextscn(f->elf, section))) {
        struct candidate c = { .rank = STUBS };

        if (!gelf_getshdr(section, &shdr) ||
            !(shdr.sh_flags & SHF_EXECINSTR)) {
            continue;
        }
        c.symbol.name = elf_strptr(f->elf, strings, shdr.sh_name);
        c.symbol.start = shdr.sh_addr;
        c.symbol.end = shdr.sh_addr + shdr.sh_size;
        if (c.symbol.name && g_str_has_prefix(c.symbol.name, ".plt") &&
            c.symbol.end > c.symbol.start) {
            g_array_append_val(all, c);
        }
    }
}

/* A function that a compiler has renamed is found by its own name, too. */
static void add_plain_names(struct elf_file *f)
{
    f->plain_names = g_string_chunk_new(1024);
    for (unsigned i = 0; i < f->symbols->len; i++) {
        const char *name = g_array_index(f->symbols, struct elf_symbol,
                                         i).name;
        size_t n = plain_name(name);
        const char *plain = name[n] ?
            g_string_chunk_insert_len(f->plain_names, name, n) : NULL;

        if (plain && !g_hash_table_contains(f->by_name, plain)) {
            g_hash_table_insert(f->by_name, (char *)plain,
                                GUINT_TO_POINTER(i));
        }
    }
}

/* Another name at the address of the last symbol; tables repeat symbols. */
static void add_alias(struct elf_file *f, const char *name)
{
    const struct elf_alias alias = { name, f->symbols->len - 1 };

    if (strcmp(name, g_array_index(f->symbols, struct elf_symbol,
                                   alias.index).name)) {
        g_array_append_val(f->aliases, alias);
    }
}

static void read_symbols(struct elf_file *f)
{
    GArray *all = g_array_new(FALSE, FALSE, sizeof(struct candidate));
    bool sure = false;          /* of the size of the last one */

    f->symbols = g_array_new(FALSE, FALSE, sizeof(struct elf_symbol));
    f->aliases = g_array_new(FALSE, FALSE, sizeof(struct elf_alias));
    f->by_name = g_hash_table_new(btrail_str_hash, g_str_equal);
    read_symbol_table(f, SHT_SYMTAB, all);
    read_symbol_table(f, SHT_DYNSYM, all);
    if (f->debug) {
        read_symbol_table(f->debug, SHT_SYMTAB, all);
    }
    read_plts(f, all);
    g_array_sort(all, compare_candidates);
    for (unsigned i = 0; i < all->len; i++) {
        const struct candidate *c = &g_array_index(all, struct candidate, i);
        struct elf_symbol *last = f->symbols->len ?
            &g_array_index(f->symbols, struct elf_symbol,
                           f->symbols->len - 1) : NULL;
        bool label = c->rank >= LABEL;

        if (!last || c->symbol.start >= last->end) {
            g_array_append_val(f->symbols, c->symbol);
        } else if (c->symbol.start != last->start && (!label || !sure)) {
            last->end = c->symbol.start;
            g_array_append_val(f->symbols, c->symbol);
        } else if (c->symbol.start != last->start) {
            /* A label inside a function is not a function. */
            continue;
        } else {
            add_alias(f, c->symbol.name);
            label = !sure;
        }
        sure = !label;
        g_hash_table_insert(f->by_name, (char *)c->symbol.name,
                            GUINT_TO_POINTER(f->symbols->len - 1));
    }
    add_plain_names(f);
    g_array_unref(all);
}

const struct elf_symbol *elf_file_symbols(struct elf_file *f, size_t *n)
{
    if (!f->symbols) {
        read_symbols(f);
    }
    *n = f->symbols->len;
    return (const struct elf_symbol *)f->symbols->data;
}

const struct elf_symbol *elf_file_symbol(struct elf_file *f, uint64_t address)
{
    size_t n;
    const struct elf_symbol *all = elf_file_symbols(f, &n);

    n = BTRAIL_UP_TO(all, n, struct elf_symbol, start, address);
    return n && address < all[n - 1].end ? &all[n - 1] : NULL;
}

static void free_array(gpointer array)
{
    g_array_unref(array);
}

static bool has_index(const GArray *found, unsigned index)
{
    for (unsigned i = 0; i < found->len; i++) {
        if (g_array_index(found, unsigned, i) == index) {
            return true;
        }
    }
    return false;
}

const GArray *elf_file_find_all(struct elf_file *f, const char *name)
{
    size_t n;
    const struct elf_symbol *all = elf_file_symbols(f, &n);
    GArray *found = f->asked ? g_hash_table_lookup(f->asked, name) : NULL;

    if (found) {
        return found;
    }
    /* Going through all of them takes a while, and processes share files. */
    if (f->asked && g_hash_table_size(f->asked) == MAX_ASKED) {
        g_clear_pointer(&f->asked, g_hash_table_unref);
    }
    if (!f->asked) {
        f->asked = g_hash_table_new_full(btrail_str_hash, g_str_equal, g_free,
                                         free_array);
    }
    found = g_array_new(FALSE, FALSE, sizeof(unsigned));
    for (unsigned i = 0; i < n; i++) {
        if (function_name_is(all[i].name, name)) {
            g_array_append_val(found, i);
        }
    }
    for (unsigned i = 0; i < f->aliases->len; i++) {
        const struct elf_alias *alias =
            &g_array_index(f->aliases, struct elf_alias, i);

        if (function_name_is(alias->name, name) &&
            !has_index(found, alias->index)) {
            g_array_append_val(found, alias->index);
        }
    }
    g_hash_table_insert(f->asked, g_strdup(name), found);
    return found;
}

const struct elf_symbol *elf_file_find(struct elf_file *f, const char *name)
{
    const GArray *found;
    gpointer place;
    size_t n;
    const struct elf_symbol *all = elf_file_symbols(f, &n);

    if (g_hash_table_lookup_extended(f->by_name, name, NULL, &place)) {
        return &all[GPOINTER_TO_UINT(place)];
    }
    found = elf_file_find_all(f, name);
    return found->len ? &all[g_array_index(found, unsigned, 0)] : NULL;
}

/*
 * Lines
 */

static int compare_units(const void *a, const void *b)
{
    const struct unit *x = a, *y = b;

    return BTRAIL_COMPARE(x->start, y->start);
}

/*
 * Do all sections of strings end in a NUL?  libdw reads a string up to its
 * NUL, in .debug_line_str also beyond the section.  The sections must have
 * been decompressed, which dwarf_begin_elf() does.
 */
static bool strings_end(Elf *elf)
{
    Elf_Scn *section = NULL;
    size_t names;

    if (elf_getshdrstrndx(elf, &names)) {
        return false;
    }
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr shdr;
        const char *name;
        Elf_Data *data;

        if (!gelf_getshdr(section, &shdr)) {
            return false;
        }
        name = elf_strptr(elf, names, shdr.sh_name);
        if (!name || !strstr(name, "debug_") ||
            !g_str_has_suffix(name, "_str")) {
            continue;
        }
        data = elf_getdata(section, NULL);
        if (data && data->d_size &&
            ((const char *)data->d_buf)[data->d_size - 1]) {
            return false;
        }
    }
    return true;
}

static Dwarf *open_dwarf(struct elf_file *f)
{
    Dwarf_CU *cu = NULL;
    struct unit unit;
    Dwarf_Die die;

    if (f->dwarf_tried) {
        return f->dwarf;
    }
    f->dwarf_tried = true;
    if (!elf_file_has_lines(f)) {
        return NULL;
    }
    f->dwarf = dwarf_begin_elf(f->elf, DWARF_C_READ, NULL);
    if (f->dwarf && !strings_end(f->elf)) {
        dwarf_end(f->dwarf);
        f->dwarf = NULL;
    }
    if (!f->dwarf) {
        return NULL;
    }
    f->units = g_array_new(FALSE, FALSE, sizeof(struct unit));
    memset(&unit, 0, sizeof(unit));
    while (!dwarf_get_units(f->dwarf, cu, &cu, NULL, NULL, &unit.die, NULL)) {
        Dwarf_Addr base, start, end;
        ptrdiff_t offset = 0;

        if (dwarf_tag(&unit.die) == DW_TAG_skeleton_unit ||
            dwarf_tag(&unit.die) == DW_TAG_compile_unit) {
            die = unit.die;
            while ((offset = dwarf_ranges(&die, offset, &base, &start,
                                          &end)) > 0) {
                unit.start = start;
                unit.end = end;
                if (start < end) {
                    g_array_append_val(f->units, unit);
                }
            }
        }
    }
    g_array_sort(f->units, compare_units);
    return f->dwarf;
}

static struct unit *find_unit(struct elf_file *f, uint64_t address)
{
    struct unit *all = (struct unit *)f->units->data;
    size_t n = BTRAIL_UP_TO(all, f->units->len, struct unit, start, address);

    return n && address < all[n - 1].end ? &all[n - 1] : NULL;
}

/* Relative paths are relative to the folder where the compiler ran. */
static const char *source_path(struct elf_file *f, Dwarf_Die *die,
                               const char *name)
{
    const char *folder;
    g_autofree char *path = NULL;
    Dwarf_Attribute attr;

    if (!name || *name == '/') {
        return name;
    }
    folder = dwarf_formstring(dwarf_attr(die, DW_AT_comp_dir, &attr));
    if (!folder) {
        return name;
    }
    if (!f->paths) {
        f->paths = g_string_chunk_new(4096);
    }
    path = g_strdup_printf("%s/%s", folder, name);
    return g_string_chunk_insert_const(f->paths, path);
}

bool elf_file_line(struct elf_file *f, uint64_t address, const char **name,
                   unsigned *line)
{
    struct unit *unit;
    Dwarf_Line *row;
    int number;

    if (f->debug && elf_file_line(f->debug, address, name, line)) {
        return true;
    }
    if (!open_dwarf(f)) {
        return false;
    }
    unit = find_unit(f, address);
    row = unit ? dwarf_getsrc_die(&unit->die, address) : NULL;
    if (!row || dwarf_lineno(row, &number) || number <= 0) {
        return false;
    }
    *name = source_path(f, &unit->die, dwarf_linesrc(row, NULL, NULL));
    *line = number;
    return *name;
}

static void unit_lines(struct elf_file *f, Dwarf_Die *die,
                       elf_file_line_fn *fn, void *opaque)
{
    Dwarf_Lines *rows;
    size_t i, n;

    if (dwarf_getsrclines(die, &rows, &n)) {
        return;
    }
    for (i = 0; i + 1 < n; i++) {
        Dwarf_Line *row = dwarf_onesrcline(rows, i);
        Dwarf_Addr start, end;
        const char *name;
        bool last;
        int line;

        if (dwarf_lineendsequence(row, &last) || last ||
            dwarf_lineaddr(row, &start) ||
            dwarf_lineaddr(dwarf_onesrcline(rows, i + 1), &end) ||
            start >= end || dwarf_lineno(row, &line) || line <= 0) {
            continue;
        }
        name = source_path(f, die, dwarf_linesrc(row, NULL, NULL));
        if (name) {
            fn(opaque, start, end, name, line);
        }
    }
}

void elf_file_lines(struct elf_file *f, elf_file_line_fn *fn, void *opaque)
{
    Dwarf_CU *cu = NULL;
    Dwarf_Die die;

    if (f->debug && elf_file_has_lines(f->debug)) {
        elf_file_lines(f->debug, fn, opaque);
        return;
    }
    if (!open_dwarf(f)) {
        return;
    }
    while (!dwarf_get_units(f->dwarf, cu, &cu, NULL, NULL, &die, NULL)) {
        if (dwarf_tag(&die) == DW_TAG_compile_unit ||
            dwarf_tag(&die) == DW_TAG_skeleton_unit) {
            unit_lines(f, &die, fn, opaque);
        }
    }
}

/* Deeper than anybody writes functions into each other */
#define MAX_DEPTH       64
/* As DWARF has them, and not each elfutils: DW_LANG_C_plus_plus_17 and _20 */
#define CXX_17          0x2a
#define CXX_20          0x2b

/* Of all functions of a file: a hostile one can have one many times. */
#define MAX_RANGES      (1u << 24)
#define MAX_DIES        (1u << 27)

struct function_walk {
    struct elf_file *file;
    Dwarf_Die *unit;
    bool cxx;
    GArray *ranges;             /* of struct elf_range, of one function */
    size_t ranges_left;
    size_t dies_left;
    GHashTable *symbols;        /* place of a declaration -> its symbol */
    elf_file_function_fn *fn;   /* NULL: only finds symbols */
    void *opaque;
};

/* Where a function is declared, of which this is one or is inlined */
static gpointer declaration(const Dwarf_Die *die)
{
    Dwarf_Die at = *die;
    Dwarf_Attribute attr;

    for (unsigned i = 0; i < MAX_DEPTH &&
                         (dwarf_attr(&at, DW_AT_abstract_origin, &attr) ||
                          dwarf_attr(&at, DW_AT_specification, &attr)) &&
                         dwarf_formref_die(&attr, &at); i++) {
        continue;
    }
    return GSIZE_TO_POINTER(dwarf_dieoffset(&at));
}

/*
 * GCC writes no linkage name of what is in an anonymous namespace, of which
 * there can be several of one name in a file: their symbols have it.
 */
static void find_symbol(struct function_walk *w, Dwarf_Die *die,
                        uint64_t entry)
{
    const struct elf_symbol *s = elf_file_symbol(w->file, entry);

    if (s && s->start == entry &&
        (g_str_has_prefix(s->name, "_Z") ||
         !g_strcmp0(s->name, dwarf_diename(die)))) {
        g_hash_table_insert(w->symbols, declaration(die),
                            (gpointer)s->name);
    }
}

/*
 * The name of a function that has no linkage name and no symbol of that: in C++
 * that is a plain one if it is to be seen from elsewhere, as main() is.  One
 * that is not, such as a lambda, and is inlined everywhere, has a symbol
 * nowhere, and others can have the same plain name.
 */
static const char *own_name(const struct function_walk *w, Dwarf_Die *die)
{
    Dwarf_Attribute attr;
    bool external = false;

    if (w->cxx && dwarf_attr_integrate(die, DW_AT_external, &attr) &&
        dwarf_formflag(&attr, &external)) {
        external = false;
    }
    return !w->cxx || external ? dwarf_diename(die) : NULL;
}

/* Reads the ranges of a function's code, and where it begins. */
static void read_ranges(struct function_walk *w, Dwarf_Die *die,
                        struct elf_function *found)
{
    const struct elf_range *first;
    Dwarf_Addr base, entry;
    struct elf_range range;
    ptrdiff_t offset = 0;

    g_array_set_size(w->ranges, 0);
    while (w->ranges_left &&
           (offset = dwarf_ranges(die, offset, &base, &range.start,
                                  &range.end)) > 0) {
        w->ranges_left--;
        if (range.start < range.end) {
            g_array_append_val(w->ranges, range);
        }
    }
    first = (const struct elf_range *)w->ranges->data;
    found->ranges = first;
    found->n_ranges = w->ranges->len;
    if (found->n_ranges) {
        found->entry = dwarf_entrypc(die, &entry) ? first->start : entry;
    }
}

static void take_function(struct function_walk *w, Dwarf_Die *die)
{
    struct elf_function found = { 0 };
    Dwarf_Attribute attr;
    int line;

    read_ranges(w, die, &found);
    found.name = dwarf_formstring(dwarf_attr_integrate(
                                      die, DW_AT_linkage_name, &attr));
    if (!w->fn) {
        if (!found.name && found.n_ranges &&
            dwarf_tag(die) == DW_TAG_subprogram) {
            find_symbol(w, die, found.entry);
        }
        return;
    }
    found.name = found.name ?:
                 g_hash_table_lookup(w->symbols, declaration(die)) ?:
                 own_name(w, die);
    found.source = source_path(w->file, w->unit, dwarf_decl_file(die));
    if (found.n_ranges && found.name && found.source &&
        !dwarf_decl_line(die, &line) && line > 0) {
        found.line = line;
        w->fn(w->opaque, &found);
    }
}

static void walk_functions(struct function_walk *w, Dwarf_Die *parent,
                           unsigned depth)
{
    Dwarf_Die die;

    if (depth == MAX_DEPTH || dwarf_child(parent, &die)) {
        return;
    }
    do {
        switch (dwarf_tag(&die)) {
        case DW_TAG_subprogram:
        case DW_TAG_inlined_subroutine:
            take_function(w, &die);
            /* fall through */
        case DW_TAG_namespace:
        case DW_TAG_module:
        case DW_TAG_class_type:
        case DW_TAG_structure_type:
        case DW_TAG_union_type:
        case DW_TAG_enumeration_type:
        case DW_TAG_lexical_block:
        case DW_TAG_try_block:
        case DW_TAG_catch_block:
            walk_functions(w, &die, depth + 1);
            break;
        default:
            break;
        }
    } while (w->dies_left && w->dies_left-- && !dwarf_siblingof(&die, &die));
}

static bool is_cxx(int language)
{
    return language == DW_LANG_C_plus_plus ||
           language == DW_LANG_C_plus_plus_03 ||
           language == DW_LANG_C_plus_plus_11 ||
           language == DW_LANG_C_plus_plus_14 ||
           language == CXX_17 || language == CXX_20;
}

void elf_file_functions(struct elf_file *f, elf_file_function_fn *fn,
                        void *opaque)
{
    struct function_walk w = {
        .file = f, .ranges_left = MAX_RANGES, .dies_left = MAX_DIES,
        .fn = fn, .opaque = opaque,
    };
    Dwarf_CU *cu = NULL;
    Dwarf_Die die;

    if (f->debug && elf_file_has_lines(f->debug)) {
        elf_file_functions(f->debug, fn, opaque);
        return;
    }
    if (!open_dwarf(f)) {
        return;
    }
    w.ranges = g_array_new(FALSE, FALSE, sizeof(struct elf_range));
    w.symbols = g_hash_table_new(NULL, NULL);
    while (!dwarf_get_units(f->dwarf, cu, &cu, NULL, NULL, &die, NULL)) {
        if (dwarf_tag(&die) == DW_TAG_compile_unit) {
            w.unit = &die;
            w.cxx = is_cxx(dwarf_srclang(&die));
            if (w.cxx) {
                w.fn = NULL;
                walk_functions(&w, &die, 0);
                w.fn = fn;
            }
            walk_functions(&w, &die, 0);
        }
    }
    g_hash_table_unref(w.symbols);
    g_array_unref(w.ranges);
}
