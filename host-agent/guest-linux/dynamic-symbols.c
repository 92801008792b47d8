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

/* An image, as far as it is known; addresses are those in the process */
struct dynamic_image {
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

static bool read_at(struct dynamic_image *m, uint64_t address, void *buf,
                    size_t size)
{
    return !(address >> 63) && page_walk_read(m->user, address, buf, size);
}

/* Are these bytes in the image? */
static bool is_inside(const struct dynamic_image *m, uint64_t address,
                      uint64_t size)
{
    return address >= m->low && address < m->high && size <= m->high - address;
}

static enum linux_symbol read_header(struct dynamic_image *m, uint64_t base,
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

static struct image_segment segment_at(const struct dynamic_image *m,
                                       const void *table,
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
static enum linux_symbol find_image(struct dynamic_image *m, uint64_t base,
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
static uint64_t to_address(const struct dynamic_image *m, uint64_t value)
{
    return is_inside(m, value, 1) ? value : value + m->bias;
}

static enum linux_symbol read_dynamic(struct dynamic_image *m,
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
static enum linux_symbol read_word(struct dynamic_image *m, uint64_t table,
                                   uint64_t index, uint32_t *v)
{
    uint64_t at = table + index * sizeof(*v);

    if (!is_inside(m, at, sizeof(*v))) {
        return LINUX_SYMBOL_NONE;
    }
    return page_walk_u32(m->user, at, v) ? LINUX_SYMBOL_FOUND :
           LINUX_SYMBOL_ABSENT;
}

static void add_address(struct dynamic_image *m, uint64_t address)
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
static enum linux_symbol try_symbol(struct dynamic_image *m, uint32_t index)
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

static enum linux_symbol find_gnu(struct dynamic_image *m)
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

static enum linux_symbol find_sysv(struct dynamic_image *m)
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
    struct dynamic_image m = {
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
