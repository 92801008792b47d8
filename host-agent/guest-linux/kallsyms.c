/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's symbols: see kallsyms.h
 *
 * The tables are
 *
 *   names        for each symbol a length (one byte, or two if bit 7 of the
 *                first is set), and that many numbers of tokens
 *   markers      u32: where in names each 256th symbol begins
 *   token_table  256 strings
 *   token_index  u16: where in token_table each of them begins
 *   offsets      32 bits each: see enum form
 *   relative_base  a word, up to Linux 6.19
 *
 * each aligned to a word, or to 4 bytes from Linux 7.0 on.
 */

#include <glib.h>
#include <string.h>

#include "guest-linux/kallsyms.h"

#define TOKENS          256
#define TOKEN_MAX       64
#define TABLE_MAX       (TOKENS * TOKEN_MAX)
#define NAMES_MAX       (32u << 20)
#define TEXT_MAX        (64u << 20)
#define IMAGE_MAX       (96u << 20)     /* of a kernel, from _stext on */
#define HOLE_MAX        (4u << 20)      /* between two of its sections */
#define PER_MARKER      256u
#define LAST_MAX        (PER_MARKER * (KALLSYMS_NAME_MAX + 2))
#define ALIGN_MIN       4u              /* of the tables */
#define ALIGN_MAX       8u

struct kallsyms {
    uint32_t n;
    uint64_t *addresses;
    uint32_t *names;            /* where in @text: the type, then the name */
    GByteArray *text;
};

struct tokens {
    uint16_t index[TOKENS];
    uint8_t length[TOKENS];
    char table[TABLE_MAX];
    size_t size;                /* of the table */
};

/* What an offset is relative to */
enum form {
    /* Up to 6.14: those of per-CPU symbols begin at 0, all others are < 0. */
    BASE_OR_PERCPU,
    /* Up to 6.19, and kernels without per-CPU symbols at 0: without a sign */
    BASE,
    /* From 7.0 on: with a sign, to the place where it is itself */
    PLACE,
};

/* The table of offsets, which is at this address, in the forms it can have */
struct offsets {
    const uint8_t *bytes;
    uint64_t at;
    uint64_t base;
    uint64_t mask;              /* of an address */
    enum form first, last;
};

static size_t align_to(size_t n, size_t to)
{
    return (n + to - 1) & ~(to - 1);
}

static uint16_t get16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t get32(const uint8_t *p)
{
    return get16(p) | (uint32_t)get16(p + 2) << 16;
}

/* Are these 256 adjacent strings that begin where the index says? */
static bool tokens_valid(struct tokens *t, const uint8_t *index,
                         const uint8_t *table, size_t size)
{
    for (unsigned i = 0; i < TOKENS; i++) {
        size_t at = get16(index + 2 * i);
        size_t length;

        if (at >= size || at + TOKEN_MAX > TABLE_MAX ||
            at != (i ? t->size : 0)) {
            return false;
        }
        length = strnlen((const char *)table + at, MIN(size - at, TOKEN_MAX));
        if (!length || length == MIN(size - at, TOKEN_MAX)) {
            return false;
        }
        t->index[i] = (uint16_t)at;
        t->length[i] = (uint8_t)length;
        t->size = at + length + 1;
    }
    memcpy(t->table, table, t->size);
    return true;
}

static bool tokens_read(struct tokens *t, struct page_walk *w,
                        uint64_t table_at, uint64_t index_at)
{
    uint8_t index[2 * TOKENS];
    uint8_t table[TABLE_MAX];
    size_t n;

    n = page_walk_read_some(w, table_at, table, sizeof(table));
    return page_walk_read(w, index_at, index, sizeof(index)) &&
           tokens_valid(t, index, table, n);
}

/* Returns the size of an entry of names, 0 if none; *@n gets its tokens. */
static size_t entry_size(const uint8_t *p, size_t left, size_t *n)
{
    size_t head = 1;

    if (!left) {
        return 0;
    }
    *n = p[0];
    if (p[0] & 0x80) {
        if (left < 2 || p[1] & 0x80) {
            return 0;
        }
        *n = (p[0] & 0x7f) | (size_t)p[1] << 7;
        head = 2;
    }
    return *n && *n <= KALLSYMS_NAME_MAX && *n <= left - head ? head + *n : 0;
}

/* Expands the type and name of each symbol to text. */
static bool expand(struct kallsyms *k, const struct tokens *t,
                   const uint8_t *names, size_t size)
{
    uint8_t name[KALLSYMS_NAME_MAX + 1];
    size_t at = 0;

    for (uint32_t i = 0; i < k->n; i++) {
        size_t begin = k->text->len;
        size_t length = 0;
        size_t n;
        size_t entry = entry_size(names + at, size - at, &n);
        size_t token;

        if (!entry) {
            return false;
        }
        for (token = entry - n; token < entry; token++) {
            unsigned which = names[at + token];
            size_t size_of = t->length[which];

            if (length + size_of >= sizeof(name)) {
                return false;
            }
            memcpy(name + length, t->table + t->index[which], size_of);
            length += size_of;
        }
        name[length++] = 0;
        g_byte_array_append(k->text, name, (guint)length);
        if (k->text->len - begin < 3 || k->text->len > TEXT_MAX) {
            return false;
        }
        k->names[i] = (uint32_t)begin;
        at += entry;
    }
    return true;
}

static uint64_t mask_of(unsigned word)
{
    return word == 4 ? UINT32_MAX : UINT64_MAX;
}

static uint64_t address_of(const struct offsets *o, enum form form, uint32_t i)
{
    uint32_t offset = get32(o->bytes + 4 * (size_t)i);
    uint64_t with_sign = (uint64_t)(int64_t)(int32_t)offset;

    switch (form) {
    case BASE_OR_PERCPU:
        return offset >> 31 ? o->base - 1 - with_sign : offset;
    case BASE:
        return o->base + offset;
    default:
        return o->at + 4 * (uint64_t)i + with_sign;
    }
}

/* Makes addresses of offsets: in the form that has _stext at its address. */
static bool relocate(struct kallsyms *k, const struct offsets *o,
                     uint64_t stext)
{
    for (enum form form = o->first; form <= o->last; form++) {
        bool agrees = false;

        for (uint32_t i = 0; i < k->n; i++) {
            k->addresses[i] = address_of(o, form, i) & o->mask;
            if (k->addresses[i] == stext && !agrees) {
                agrees = !strcmp((const char *)k->text->data + k->names[i] + 1,
                                 "_stext");
            }
        }
        if (agrees) {
            return true;
        }
    }
    return false;
}

static struct kallsyms *make(const struct tokens *t, uint32_t n,
                             const uint8_t *names, size_t size)
{
    struct kallsyms *k = g_new0(struct kallsyms, 1);

    k->n = n;
    k->addresses = g_new(uint64_t, n);
    k->names = g_new(uint32_t, n);
    k->text = g_byte_array_new();
    if (!expand(k, t, names, size)) {
        kallsyms_free(k);
        return NULL;
    }
    return k;
}

static struct kallsyms *from_note(struct page_walk *w,
                                  const struct vmcoreinfo *v, uint64_t stext)
{
    g_autofree struct tokens *t = g_new0(struct tokens, 1);
    uint64_t names_at, n_at, table_at, index_at, base_at;
    g_autofree uint8_t *names = NULL;
    g_autofree uint8_t *offsets = NULL;
    unsigned word = page_walk_word(w);
    struct offsets o = { .mask = mask_of(word), .first = PLACE,
                         .last = PLACE };
    struct kallsyms *k;
    uint32_t n;
    size_t size;

    if (!vmcoreinfo_symbol(v, "kallsyms_names", &names_at) ||
        !vmcoreinfo_symbol(v, "kallsyms_num_syms", &n_at) ||
        !vmcoreinfo_symbol(v, "kallsyms_token_table", &table_at) ||
        !vmcoreinfo_symbol(v, "kallsyms_token_index", &index_at) ||
        !vmcoreinfo_symbol(v, "kallsyms_offsets", &o.at) ||
        !tokens_read(t, w, table_at, index_at) ||
        !page_walk_u32(w, n_at, &n) || !n || n > KALLSYMS_MAX) {
        return NULL;
    }
    if (vmcoreinfo_symbol(v, "kallsyms_relative_base", &base_at)) {
        o.first = BASE_OR_PERCPU;
        o.last = BASE;
        if (!page_walk_number(w, base_at, word, &o.base)) {
            return NULL;
        }
    }
    o.bytes = offsets = g_malloc(4 * (size_t)n);
    if (!page_walk_read(w, o.at, offsets, 4 * (size_t)n)) {
        return NULL;
    }
    size = MIN(NAMES_MAX, 64 * (size_t)n + GUEST_PAGE_SIZE);
    names = g_malloc(size);
    size = page_walk_read_some(w, names_at, names, size);
    k = make(t, n, names, size);
    if (k && !relocate(k, &o, stext)) {
        g_clear_pointer(&k, kallsyms_free);
    }
    return k;
}

/* Returns where the table of tokens before this index begins, or 0. */
static size_t find_tokens(struct tokens *t, const uint8_t *image, size_t index)
{
    size_t last = get16(image + index + 2 * (TOKENS - 1));
    size_t size;

    for (size = align_to(last + 2, ALIGN_MIN);
         size < last + TOKEN_MAX + ALIGN_MAX; size += ALIGN_MIN) {
        if (size < index &&
            tokens_valid(t, image + index, image + index - size, size) &&
            size - t->size < ALIGN_MAX) {
            return index - size;
        }
    }
    return 0;
}

/* Can a token_index be here?  A cheap test: nearly always not. */
static bool index_like(const uint8_t *p)
{
    unsigned before = 0;

    if (get16(p)) {
        return false;
    }
    for (unsigned i = 1; i < TOKENS; i++) {
        unsigned at = get16(p + 2 * i);

        if (at < before + 2 || at > before + TOKEN_MAX) {
            return false;
        }
        before = at;
    }
    return true;
}

/* Returns where the markers before the table of tokens begin, or 0. */
static size_t find_markers(const uint8_t *image, size_t table, size_t *count)
{
    size_t pad;

    for (pad = 0; pad < ALIGN_MAX; pad += ALIGN_MIN) {
        size_t at = table - pad;
        uint32_t above = NAMES_MAX;

        if (table < pad + 8) {
            return 0;
        }
        while (at >= 4 && get32(image + at - 4) < above &&
               above - get32(image + at - 4) <=
               (above == NAMES_MAX ? NAMES_MAX : PER_MARKER * 512)) {
            at -= 4;
            above = get32(image + at);
            if (!above) {
                if (table - pad - at < 8) {
                    break;
                }
                *count = (table - pad - at) / 4;
                return at;
            }
        }
    }
    return 0;
}

/*
 * Returns how many names begin at @at, and where that number is in @number.
 * 0 if it is not before them, or if they do not match the markers or do not end
 * where those begin.
 */
static uint32_t count_names(const uint8_t *image, size_t at, size_t markers,
                            size_t n_markers, size_t *number)
{
    uint32_t whole = PER_MARKER * (uint32_t)(n_markers - 1);
    size_t end = markers;
    uint32_t count = 0;

    /* From the last on: only few places have those and the right number. */
    for (size_t i = n_markers; i-- > 0; ) {
        size_t begin = at + get32(image + markers + 4 * i);
        size_t p = begin;
        size_t entry, tokens;
        uint32_t n;

        for (n = 0; n < PER_MARKER; n++) {
            entry = entry_size(image + p, end - p, &tokens);
            if (!entry) {
                break;
            }
            p += entry;
        }
        if (count) {
            if (p != end || n != PER_MARKER) {
                return 0;
            }
        } else {
            if (!n || end - p >= ALIGN_MAX) {
                return 0;
            }
            count = whole + n;
            *number = at - ALIGN_MIN;
            if (get32(image + *number) != count) {
                *number = at - ALIGN_MAX;
            }
            if (get32(image + *number) != count) {
                return 0;
            }
        }
        end = begin;
    }
    return count;
}

/*
 * Makes addresses of the offsets that are where a kernel with the names there
 * has them.
 */
static bool find_offsets(struct kallsyms *k, const uint8_t *image,
                         size_t image_size, size_t number, size_t index,
                         uint64_t stext, unsigned word)
{
    size_t size = 4 * (size_t)k->n;
    const struct {
        size_t offsets;
        size_t base;
        enum form first, last;
    } places[] = {
        /* Up to 6.3: offsets, base, number, names; later: after the tokens */
        { number - word - align_to(size, word), number - word,
          BASE_OR_PERCPU, BASE },
        { index + 2 * TOKENS, index + 2 * TOKENS + align_to(size, word),
          BASE_OR_PERCPU, BASE },
        { index + 2 * TOKENS, index + 2 * TOKENS + size - 8, PLACE, PLACE },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(places); i++) {
        size_t base = places[i].base;
        struct offsets o = {
            .bytes = image + places[i].offsets,
            .at = stext + places[i].offsets,
            .mask = mask_of(word),
            .first = places[i].first,
            .last = places[i].last,
        };

        if (base > image_size - 8 || places[i].offsets > base) {
            continue;
        }
        o.base = (get32(image + base) |
                  (uint64_t)get32(image + base + 4) << 32) & o.mask;
        if (relocate(k, &o, stext)) {
            return true;
        }
    }
    return false;
}

static struct kallsyms *with_tokens(const uint8_t *image, size_t image_size,
                                    size_t index, size_t table,
                                    const struct tokens *t, uint64_t stext,
                                    unsigned word)
{
    size_t n_markers = 0;
    size_t markers = find_markers(image, table, &n_markers);
    size_t names;
    size_t least;

    if (!markers) {
        return NULL;
    }
    least = get32(image + markers + 4 * (n_markers - 1));
    if (markers < least + 16) {
        return NULL;
    }
    names = (markers - least) & ~(size_t)(ALIGN_MIN - 1);
    for (; names >= 16 && markers - names <= least + LAST_MAX;
         names -= ALIGN_MIN) {
        size_t number;
        uint32_t n = count_names(image, names, markers, n_markers, &number);
        struct kallsyms *k = n ? make(t, n, image + names, markers - names) :
                             NULL;

        if (k && find_offsets(k, image, image_size, number, index, stext,
                              word)) {
            return k;
        }
        kallsyms_free(k);
    }
    return NULL;
}

static struct kallsyms *by_search(struct page_walk *w, uint64_t stext)
{
    g_autofree struct tokens *t = g_new0(struct tokens, 1);
    g_autofree uint8_t *image = NULL;
    struct kallsyms *k = NULL;
    uint64_t physical;
    size_t size = 0;
    size_t at;

    /* Pages between two sections may not be mapped. */
    for (at = 0; at < IMAGE_MAX && at - size < HOLE_MAX;
         at += GUEST_PAGE_SIZE) {
        if (page_walk(w, stext + at, &physical)) {
            size = at + GUEST_PAGE_SIZE;
        }
    }
    image = g_malloc0(size);
    for (at = 0; at < size; at += GUEST_PAGE_SIZE) {
        page_walk_read(w, stext + at, image + at, GUEST_PAGE_SIZE);
    }
    for (at = 0; size >= 2 * TOKENS && at <= size - 2 * TOKENS && !k;
         at += ALIGN_MIN) {
        if (index_like(image + at)) {
            size_t table = find_tokens(t, image, at);

            if (table) {
                k = with_tokens(image, size, at, table, t, stext,
                                page_walk_word(w));
            }
        }
    }
    return k;
}

struct kallsyms *kallsyms_read(struct page_walk *kernel,
                               const struct vmcoreinfo *v)
{
    struct kallsyms *k;
    uint64_t stext;

    if (!vmcoreinfo_symbol(v, "_stext", &stext) || stext % GUEST_PAGE_SIZE) {
        return NULL;
    }
    k = from_note(kernel, v, stext);
    return k ? k : by_search(kernel, stext);
}

void kallsyms_free(struct kallsyms *k)
{
    if (k) {
        g_free(k->addresses);
        g_free(k->names);
        g_byte_array_unref(k->text);
        g_free(k);
    }
}

uint32_t kallsyms_count(const struct kallsyms *k)
{
    return k->n;
}

void kallsyms_get(const struct kallsyms *k, uint32_t i, uint64_t *address,
                  char *type, const char **name)
{
    const char *text = (const char *)k->text->data + k->names[i];

    *address = k->addresses[i];
    *type = text[0];
    *name = text + 1;
}

bool kallsyms_find(const struct kallsyms *k, const char *name,
                   uint64_t *address)
{
    for (uint32_t i = 0; i < k->n; i++) {
        if (!strcmp((const char *)k->text->data + k->names[i] + 1, name)) {
            *address = k->addresses[i];
            return *address != 0;
        }
    }
    return false;
}
