/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols in a process's memory: see dynamic-symbols.h
 */

#include <elf.h>
#include <glib.h>
#include <string.h>

#include "guest-linux/dynamic-symbols.h"

#define SEGMENTS_MAX    64
#define DYNAMIC_MAX     512             /* entries */
#define CHAIN_MAX       4096            /* symbols with one hash */
#define SYMBOLS_MAX     (1u << 15)      /* of a table that is read as a whole */
#define STRINGS_MAX     (1u << 20)
#define CODE_MAX        4               /* segments */

/* An image, as far as it is known; addresses are those in the process */
struct image {
    struct page_walk *user;
    const char *name;
    size_t name_size;                   /* with the 0 at its end */
    bool wide;                          /* ELFCLASS64 */
    uint64_t bias;                      /* to add to addresses of the file */
    uint64_t low, high;
    uint64_t symbols, strings, strings_size, gnu_hash, hash;
    uint64_t *addresses;
    unsigned n;
};

/* Segments and entries of both classes */
struct image_segment {
    uint32_t type;
    uint64_t offset, address, size;
};

struct dynamic_entry {
    uint64_t tag, value;
};

static bool read_at(struct image *m, uint64_t address, void *buf, size_t size)
{
    return !(address >> 63) && page_walk_read(m->user, address, buf, size);
}

/* Are these bytes in the image? */
static bool is_inside(const struct image *m, uint64_t address, uint64_t size)
{
    return address >= m->low && address < m->high && size <= m->high - address;
}

static enum linux_symbol read_header(struct image *m, uint64_t base,
                                     uint64_t *table, unsigned *n)
{
    union {
        unsigned char ident[EI_NIDENT];
        Elf64_Ehdr wide;
        Elf32_Ehdr narrow;
    } h;

    if (!read_at(m, base, &h, sizeof(h))) {
        return LINUX_SYMBOL_ABSENT;
    }
    if (memcmp(h.ident, ELFMAG, SELFMAG) || h.ident[EI_DATA] != ELFDATA2LSB) {
        return LINUX_SYMBOL_NONE;
    }
    m->wide = h.ident[EI_CLASS] == ELFCLASS64;
    *table = m->wide ? h.wide.e_phoff : h.narrow.e_phoff;
    *n = m->wide ? h.wide.e_phnum : h.narrow.e_phnum;
    if (*n > SEGMENTS_MAX || *table > UINT32_MAX ||
        (m->wide ? h.wide.e_phentsize != sizeof(Elf64_Phdr) :
         h.narrow.e_phentsize != sizeof(Elf32_Phdr))) {
        return LINUX_SYMBOL_NONE;
    }
    *table += base;
    return LINUX_SYMBOL_FOUND;
}

static struct image_segment segment_at(const struct image *m, const void *table,
                                       unsigned i)
{
    if (m->wide) {
        const Elf64_Phdr *p = (const Elf64_Phdr *)table + i;

        return (struct image_segment) {
            p->p_type, p->p_offset, p->p_vaddr, p->p_memsz,
        };
    } else {
        const Elf32_Phdr *p = (const Elf32_Phdr *)table + i;

        return (struct image_segment) {
            p->p_type, p->p_offset, p->p_vaddr, p->p_memsz,
        };
    }
}

/* Finds where the image is, and its dynamic section. */
static enum linux_symbol find_image(struct image *m, uint64_t base,
                                    struct image_segment *dynamic)
{
    union {
        Elf64_Phdr wide[SEGMENTS_MAX];
        Elf32_Phdr narrow[SEGMENTS_MAX];
    } all;
    uint64_t table, low = UINT64_MAX, high = 0;
    bool found = false;
    enum linux_symbol s;
    unsigned n, i;

    s = read_header(m, base, &table, &n);
    if (s != LINUX_SYMBOL_FOUND) {
        return s;
    }
    if (!read_at(m, table, &all,
                 n * (m->wide ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr)))) {
        return LINUX_SYMBOL_ABSENT;
    }
    dynamic->type = PT_NULL;
    for (i = 0; i < n; i++) {
        struct image_segment p = segment_at(m, &all, i);

        if (p.address >> 63 || p.size >> 62) {
            return LINUX_SYMBOL_NONE;
        }
        if (p.type == PT_DYNAMIC) {
            *dynamic = p;
        } else if (p.type == PT_LOAD) {
            if (!found && p.offset < GUEST_PAGE_SIZE) {
                /* The page that begins the file is mapped at base. */
                m->bias = base - (p.address & -(uint64_t)GUEST_PAGE_SIZE);
                found = true;
            }
            low = MIN(low, p.address);
            high = MAX(high, p.address + p.size);
        }
    }
    if (!found || !dynamic->type || low >= high) {
        return LINUX_SYMBOL_NONE;
    }
    m->low = low + m->bias;
    m->high = high + m->bias;
    dynamic->address += m->bias;
    if (m->low >> 63 || m->high >> 63 || m->low >= m->high ||
        !is_inside(m, dynamic->address, dynamic->size)) {
        return LINUX_SYMBOL_NONE;
    }
    return LINUX_SYMBOL_FOUND;
}

/*
 * Some dynamic linkers have replaced addresses of the file by those in the
 * process.
 */
static uint64_t to_address(const struct image *m, uint64_t value)
{
    return is_inside(m, value, 1) ? value : value + m->bias;
}

static enum linux_symbol read_dynamic(struct image *m,
                                      const struct image_segment *dynamic)
{
    union {
        Elf64_Dyn wide[DYNAMIC_MAX];
        Elf32_Dyn narrow[DYNAMIC_MAX];
    } all;
    size_t size = m->wide ? sizeof(Elf64_Dyn) : sizeof(Elf32_Dyn);
    unsigned n = (unsigned)MIN(dynamic->size / size, DYNAMIC_MAX);

    if (!read_at(m, dynamic->address, &all, n * size)) {
        return LINUX_SYMBOL_ABSENT;
    }
    for (unsigned i = 0; i < n; i++) {
        struct dynamic_entry e = m->wide ?
            (struct dynamic_entry) { (uint64_t)all.wide[i].d_tag,
                                     all.wide[i].d_un.d_ptr } :
            (struct dynamic_entry) { (uint32_t)all.narrow[i].d_tag,
                                     all.narrow[i].d_un.d_ptr };

        switch (e.tag) {
        case DT_NULL:
            n = i;
            break;
        case DT_SYMTAB:
            m->symbols = to_address(m, e.value);
            break;
        case DT_STRTAB:
            m->strings = to_address(m, e.value);
            break;
        case DT_STRSZ:
            m->strings_size = e.value;
            break;
        case DT_GNU_HASH:
            m->gnu_hash = to_address(m, e.value);
            break;
        case DT_HASH:
            m->hash = to_address(m, e.value);
            break;
        default:
            break;
        }
    }
    return m->symbols && m->strings && (m->gnu_hash || m->hash) ?
           LINUX_SYMBOL_FOUND : LINUX_SYMBOL_NONE;
}

/* Reads a number of a table; NONE if it would be outside of the image. */
static enum linux_symbol read_word(struct image *m, uint64_t table,
                                   uint64_t index, uint32_t *v)
{
    uint64_t at = table + index * sizeof(*v);

    if (!is_inside(m, at, sizeof(*v))) {
        return LINUX_SYMBOL_NONE;
    }
    return page_walk_u32(m->user, at, v) ? LINUX_SYMBOL_FOUND :
           LINUX_SYMBOL_ABSENT;
}

static void add_address(struct image *m, uint64_t address)
{
    for (unsigned i = 0; i < m->n; i++) {
        if (m->addresses[i] == address) {
            return;
        }
    }
    if (m->n < LINUX_SYMBOL_VERSIONS) {
        m->addresses[m->n++] = address;
    }
}

/* Adds the symbol of an index if it is a function with the name. */
static enum linux_symbol try_symbol(struct image *m, uint32_t index)
{
    char name[LINUX_SYMBOL_NAME_MAX + 1];
    union {
        Elf64_Sym wide;
        Elf32_Sym narrow;
    } s;
    size_t size = m->wide ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
    uint64_t at = m->symbols + index * (uint64_t)size;
    uint64_t where, value;
    unsigned type;

    if (!is_inside(m, at, size)) {
        return LINUX_SYMBOL_NONE;
    }
    if (!read_at(m, at, &s, size)) {
        return LINUX_SYMBOL_ABSENT;
    }
    where = m->wide ? s.wide.st_name : s.narrow.st_name;
    value = m->wide ? s.wide.st_value : s.narrow.st_value;
    /* An STT_GNU_IFUNC has the address of the resolver, not of the function. */
    type = ELF64_ST_TYPE(m->wide ? s.wide.st_info : s.narrow.st_info);
    if ((type != STT_FUNC && type != STT_NOTYPE) || !value ||
        (m->wide ? s.wide.st_shndx : s.narrow.st_shndx) == SHN_UNDEF ||
        where >= m->strings_size ||
        m->name_size > m->strings_size - where ||
        !is_inside(m, m->strings + where, m->name_size)) {
        return LINUX_SYMBOL_NONE;
    }
    if (!read_at(m, m->strings + where, name, m->name_size)) {
        return LINUX_SYMBOL_ABSENT;
    }
    if (memcmp(name, m->name, m->name_size)) {
        return LINUX_SYMBOL_NONE;
    }
    add_address(m, m->bias + value);
    return LINUX_SYMBOL_FOUND;
}

static uint32_t gnu_hash(const char *name)
{
    uint32_t h = 5381;

    for (; *name; name++) {
        h = h * 33 + (unsigned char)*name;
    }
    return h;
}

static enum linux_symbol find_gnu(struct image *m)
{
    uint32_t h = gnu_hash(m->name);
    uint32_t head[3], index, value;
    enum linux_symbol s;
    uint64_t buckets, chain;
    unsigned i;

    /* Buckets, first symbol, words of the filter */
    for (i = 0; i < G_N_ELEMENTS(head); i++) {
        s = read_word(m, m->gnu_hash, i, &head[i]);
        if (s != LINUX_SYMBOL_FOUND) {
            return s;
        }
    }
    buckets = m->gnu_hash + 16 + head[2] * (uint64_t)(m->wide ? 8 : 4);
    chain = buckets + head[0] * UINT64_C(4);
    if (!head[0]) {
        return LINUX_SYMBOL_NONE;
    }
    s = read_word(m, buckets, h % head[0], &index);
    for (i = 0; s == LINUX_SYMBOL_FOUND && index >= head[1] && i < CHAIN_MAX;
         i++, index++) {
        s = read_word(m, chain, index - head[1], &value);
        if (s == LINUX_SYMBOL_FOUND && (value | 1) == (h | 1) &&
            try_symbol(m, index) == LINUX_SYMBOL_ABSENT) {
            s = LINUX_SYMBOL_ABSENT;
        }
        if (s == LINUX_SYMBOL_FOUND && value & 1) {
            break;
        }
    }
    return s;
}

static uint32_t sysv_hash(const char *name)
{
    uint32_t h = 0, top;

    for (; *name; name++) {
        h = (h << 4) + (unsigned char)*name;
        top = h & 0xf0000000;
        h = (h ^ top >> 24) & ~top;
    }
    return h;
}

static enum linux_symbol find_sysv(struct image *m)
{
    uint32_t n, index;
    enum linux_symbol s;
    unsigned i;

    s = read_word(m, m->hash, 0, &n);
    if (s != LINUX_SYMBOL_FOUND || !n) {
        return s == LINUX_SYMBOL_ABSENT ? s : LINUX_SYMBOL_NONE;
    }
    s = read_word(m, m->hash, 2 + sysv_hash(m->name) % n, &index);
    for (i = 0; s == LINUX_SYMBOL_FOUND && index && i < CHAIN_MAX; i++) {
        if (try_symbol(m, index) == LINUX_SYMBOL_ABSENT) {
            return LINUX_SYMBOL_ABSENT;
        }
        s = read_word(m, m->hash, 2 + (uint64_t)n + index, &index);
    }
    return s;
}

enum linux_symbol
linux_dynamic_symbol(struct page_walk *user, uint64_t base, const char *name,
                     uint64_t addresses[LINUX_SYMBOL_VERSIONS], unsigned *n)
{
    struct image m = {
        .user = user,
        .name = name,
        .name_size = strlen(name) + 1,
        .addresses = addresses,
    };
    struct image_segment dynamic;
    enum linux_symbol s;

    *n = 0;
    if (m.name_size > LINUX_SYMBOL_NAME_MAX + 1 || m.name_size < 2) {
        return LINUX_SYMBOL_NONE;
    }
    s = find_image(&m, base, &dynamic);
    if (s == LINUX_SYMBOL_FOUND) {
        s = read_dynamic(&m, &dynamic);
    }
    if (s == LINUX_SYMBOL_FOUND) {
        s = m.gnu_hash ? find_gnu(&m) : find_sysv(&m);
    }
    if (s == LINUX_SYMBOL_ABSENT) {
        return s;
    }
    *n = m.n;
    return m.n ? LINUX_SYMBOL_FOUND : LINUX_SYMBOL_NONE;
}

/*
 * A whole table
 */

/* The segments with code, which become sections */
struct code_segments {
    Elf64_Phdr loads[SEGMENTS_MAX];
    unsigned n_loads;
    unsigned code[CODE_MAX];            /* which of them */
    unsigned n;
    uint16_t type;                      /* of the file */
};

static enum linux_symbol read_segments(struct image *m, uint64_t base,
                                       struct code_segments *c)
{
    Elf64_Phdr all[SEGMENTS_MAX];
    Elf64_Ehdr h;
    uint64_t table;
    unsigned n;
    enum linux_symbol s = read_header(m, base, &table, &n);

    if (s != LINUX_SYMBOL_FOUND) {
        return s;
    }
    if (!m->wide) {
        return LINUX_SYMBOL_NONE;
    }
    if (!read_at(m, base, &h, sizeof(h)) ||
        !read_at(m, table, all, n * sizeof(*all))) {
        return LINUX_SYMBOL_ABSENT;
    }
    c->type = h.e_type;
    for (unsigned i = 0; i < n; i++) {
        if (all[i].p_type != PT_LOAD) {
            continue;
        }
        if (all[i].p_flags & PF_X && c->n < CODE_MAX) {
            c->code[c->n++] = c->n_loads;
        }
        c->loads[c->n_loads++] = all[i];
    }
    return c->n ? LINUX_SYMBOL_FOUND : LINUX_SYMBOL_NONE;
}

/*
 * Reads what is in memory; the rest is 0.  Returns false if some of it is not.
 */
static bool read_present(struct image *m, uint64_t address, void *buf,
                         size_t size)
{
    uint8_t *to = buf;
    bool whole = true;

    while (size) {
        size_t n = MIN(size, GUEST_PAGE_SIZE - address % GUEST_PAGE_SIZE);

        if (!read_at(m, address, to, n)) {
            memset(to, 0, n);
            whole = false;
        }
        address += n;
        to += n;
        size -= n;
    }
    return whole;
}

/* How many symbols the tables have, by their hashes; 0 if that is not known */
static uint32_t count_symbols(struct image *m)
{
    uint32_t head[3], last = 0, value = 0;
    uint64_t buckets, chain;

    if (!m->gnu_hash) {
        /* Of each symbol this table has a number. */
        return read_word(m, m->hash, 1, &value) == LINUX_SYMBOL_FOUND ?
               MIN(value, SYMBOLS_MAX) : 0;
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(head); i++) {
        if (read_word(m, m->gnu_hash, i, &head[i]) != LINUX_SYMBOL_FOUND) {
            return 0;
        }
    }
    buckets = m->gnu_hash + 16 + head[2] * UINT64_C(8);
    chain = buckets + head[0] * UINT64_C(4);
    for (uint32_t i = 0; i < MIN(head[0], SYMBOLS_MAX); i++) {
        if (read_word(m, buckets, i, &value) == LINUX_SYMBOL_FOUND) {
            last = MAX(last, value);
        }
    }
    /* The last chain ends with the last symbol. */
    for (value = 0; last >= head[1] && last < SYMBOLS_MAX && !(value & 1);
         last++) {
        if (read_word(m, chain, last - head[1], &value) !=
            LINUX_SYMBOL_FOUND) {
            break;
        }
    }
    return MIN(last, SYMBOLS_MAX);
}

/* The section that a symbol is in, counted from 0; -1 if it is no function */
static int section_of(const struct code_segments *c, const Elf64_Sym *s)
{
    unsigned type = ELF64_ST_TYPE(s->st_info);

    for (unsigned i = 0; i < c->n && (type == STT_FUNC ||
                                      type == STT_GNU_IFUNC) &&
         s->st_shndx != SHN_UNDEF; i++) {
        const Elf64_Phdr *p = &c->loads[c->code[i]];

        if (s->st_value >= p->p_vaddr &&
            s->st_value - p->p_vaddr < p->p_memsz) {
            return i;
        }
    }
    return -1;
}

/* Sections before those of code, and behind them */
enum { SECTION_NOTE = 1, SECTION_CODE = 2 };

/*
 * Reads the functions, with names in a table of their own.  False if some are
 * not in memory.
 */
static bool read_functions(struct image *m, const struct code_segments *c,
                           GByteArray *symbols, GByteArray *names)
{
    static const Elf64_Sym none;
    uint32_t n = count_symbols(m);
    size_t size = n * sizeof(Elf64_Sym);
    uint64_t strings_size = MIN(m->strings_size, STRINGS_MAX);
    g_autofree Elf64_Sym *all = g_malloc(size + 1);
    g_autofree char *strings = g_malloc(strings_size + 1);
    bool whole = n;

    g_byte_array_append(symbols, (const uint8_t *)&none, sizeof(none));
    g_byte_array_append(names, (const uint8_t *)"", 1);
    if (!n || !is_inside(m, m->symbols, size) ||
        !is_inside(m, m->strings, strings_size)) {
        return false;
    }
    whole &= read_present(m, m->symbols, all, size);
    whole &= read_present(m, m->strings, strings, strings_size);
    strings[strings_size] = '\0';
    for (uint32_t i = 0; i < n; i++) {
        Elf64_Sym s = all[i];
        int section = section_of(c, &s);
        const char *name = s.st_name < strings_size ? strings + s.st_name : "";
        size_t len = strnlen(name, LINUX_SYMBOL_NAME_MAX + 1);

        if (section < 0 || !len || len > LINUX_SYMBOL_NAME_MAX) {
            continue;
        }
        if (names->len + symbols->len > LINUX_DYNAMIC_IMAGE_MAX) {
            break;
        }
        s.st_name = names->len;
        s.st_shndx = SECTION_CODE + section;
        g_byte_array_append(names, (const uint8_t *)name, len + 1);
        g_byte_array_append(symbols, (const uint8_t *)&s, sizeof(s));
    }
    return whole;
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

/* Puts the parts of a file together. */
static GByteArray *make_file(const struct code_segments *c,
                             const GByteArray *note,
                             const GByteArray *symbols,
                             const GByteArray *names)
{
    static const char texts[] = "\0.note.gnu.build-id\0.text\0.dynsym\0"
                                ".dynstr\0.shstrtab";
    enum { NOTE = 1, TEXT = 20, DYNSYM = 26, DYNSTR = 34, SHSTRTAB = 42 };
    GByteArray *out = g_byte_array_new();
    Elf64_Shdr sections[SECTION_CODE + CODE_MAX + 3] = { 0 };
    unsigned n = SECTION_CODE + c->n;
    uint64_t at = sizeof(Elf64_Ehdr) + (c->n_loads + 1) * sizeof(Elf64_Phdr);
    Elf64_Phdr id = {
        .p_type = PT_NOTE, .p_flags = PF_R, .p_filesz = note->len,
        .p_memsz = note->len, .p_align = 4,
    };
    const Elf64_Ehdr h = {
        .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
                     ELFDATA2LSB, EV_CURRENT },
        .e_type = c->type, .e_machine = EM_X86_64, .e_version = EV_CURRENT,
        .e_phoff = sizeof(h), .e_ehsize = sizeof(h),
        .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = c->n_loads + 1,
        .e_shoff = at, .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = n + 3,
        .e_shstrndx = n + 2,
    };

    at += (n + 3) * sizeof(Elf64_Shdr);
    id.p_offset = at;
    sections[SECTION_NOTE] = (Elf64_Shdr) {
        .sh_name = NOTE, .sh_type = SHT_NOTE, .sh_flags = SHF_ALLOC,
        .sh_offset = at, .sh_size = note->len, .sh_addralign = 4,
    };
    for (unsigned i = 0; i < c->n; i++) {
        const Elf64_Phdr *p = &c->loads[c->code[i]];

        sections[SECTION_CODE + i] = (Elf64_Shdr) {
            .sh_name = TEXT, .sh_type = SHT_NOBITS,
            .sh_flags = SHF_ALLOC | SHF_EXECINSTR, .sh_addr = p->p_vaddr,
            .sh_offset = at, .sh_size = p->p_memsz, .sh_addralign = 1,
        };
    }
    at += note->len;
    sections[n] = (Elf64_Shdr) {
        .sh_name = DYNSYM, .sh_type = SHT_DYNSYM, .sh_flags = SHF_ALLOC,
        .sh_offset = at, .sh_size = symbols->len, .sh_link = n + 1,
        .sh_info = 1, .sh_addralign = 1, .sh_entsize = sizeof(Elf64_Sym),
    };
    at += symbols->len;
    sections[n + 1] = (Elf64_Shdr) {
        .sh_name = DYNSTR, .sh_type = SHT_STRTAB, .sh_flags = SHF_ALLOC,
        .sh_offset = at, .sh_size = names->len, .sh_addralign = 1,
    };
    at += names->len;
    sections[n + 2] = (Elf64_Shdr) {
        .sh_name = SHSTRTAB, .sh_type = SHT_STRTAB, .sh_offset = at,
        .sh_size = sizeof(texts), .sh_addralign = 1,
    };
    g_byte_array_append(out, (const uint8_t *)&h, sizeof(h));
    g_byte_array_append(out, (const uint8_t *)c->loads,
                        c->n_loads * sizeof(*c->loads));
    g_byte_array_append(out, (const uint8_t *)&id, sizeof(id));
    g_byte_array_append(out, (const uint8_t *)sections,
                        (n + 3) * sizeof(*sections));
    g_byte_array_append(out, note->data, note->len);
    g_byte_array_append(out, symbols->data, symbols->len);
    g_byte_array_append(out, names->data, names->len);
    g_byte_array_append(out, (const uint8_t *)texts, sizeof(texts));
    return out;
}

enum linux_symbol
linux_dynamic_image(struct page_walk *user, uint64_t base,
                    const uint8_t *build_id, size_t size,
                    struct linux_dynamic_image *image)
{
    struct image m = { .user = user };
    g_autofree struct code_segments *c = g_new0(struct code_segments, 1);
    g_autoptr(GByteArray) note = g_byte_array_new();
    g_autoptr(GByteArray) symbols = g_byte_array_new();
    g_autoptr(GByteArray) names = g_byte_array_new();
    struct image_segment dynamic;
    enum linux_symbol s = find_image(&m, base, &dynamic);

    if (s == LINUX_SYMBOL_FOUND) {
        s = read_segments(&m, base, c);
    }
    if (s == LINUX_SYMBOL_FOUND) {
        s = read_dynamic(&m, &dynamic);
    }
    if (s != LINUX_SYMBOL_FOUND) {
        return s;
    }
    image->whole = read_functions(&m, c, symbols, names);
    image->symbols = symbols->len / sizeof(Elf64_Sym) - 1;
    append_note(note, build_id, size);
    image->data = make_file(c, note, symbols, names);
    if (image->data->len > LINUX_DYNAMIC_IMAGE_MAX || !image->symbols) {
        s = image->symbols || image->whole ? LINUX_SYMBOL_NONE :
            LINUX_SYMBOL_ABSENT;
        g_clear_pointer(&image->data, g_byte_array_unref);
    }
    return s;
}
