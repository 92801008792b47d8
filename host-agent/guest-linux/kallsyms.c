/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's symbols: see kallsyms.h
 *
 * The tables are
 *
 *   names        for each symbol a length (one byte, or two if bit 7 of the
 *                first is set), and that many numbers of tokens
 *   markers      u32: where in names each 256th symbol begins
 *   seqs_of_names  3 bytes each: the symbols in the order of their names; here
 *                only in Linux 6.2 and 6.3, and 6.1 since some update
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
#include "guest-linux/symbol-lines.h"

#define TOKENS          256
#define TOKEN_MAX       64
#define TABLE_MAX       (TOKENS * TOKEN_MAX)
#define NAMES_MAX       (32u << 20)
#define NAMES_CHUNK     (64u << 10)     /* of names that are read at once */
#define TEXT_MAX        (64u << 20)
#define IMAGE_MAX       (96u << 20)     /* of a kernel, from _stext on */
#define HOLE_MAX        (4u << 20)      /* between two of its sections */
#define PER_MARKER      256u
#define SEQ_SIZE        3u
#define MARKERS_TRIED   8u              /* places that may be theirs */
#define LAST_MAX        (PER_MARKER * (KALLSYMS_NAME_MAX + 2))
#define ALIGN_MIN       4u              /* of the tables */
#define ALIGN_MAX       8u
#define NAME_GUESS      32u             /* of most names, with their types */
#define COPY            16u             /* as long as nearly all tokens */

/* What an offset is relative to */
enum form {
    /* Up to 6.14: those of per-CPU symbols begin at 0, all others are < 0. */
    BASE_OR_PERCPU,
    /* Up to 6.19, and kernels without per-CPU symbols at 0: without a sign */
    BASE,
    /* From 7.0 on: with a sign, to the place where it is itself */
    PLACE,
};

/* The table of offsets, which is at this address */
struct offsets {
    uint8_t *bytes;
    uint64_t at;
    uint64_t base;
    uint64_t mask;              /* of an address */
    enum form form;
};

struct kallsyms {
    uint32_t n;
    struct offsets offsets;
    uint32_t *names;            /* where in @text: the type, then the name */
    uint16_t *tags;             /* tag_of() each name */
    char *text;
    size_t size;                /* of @text */
    bool plain;                 /* all can be in a line of text */
};

struct tokens {
    uint16_t index[TOKENS];
    uint8_t length[TOKENS];
    char table[TABLE_MAX + COPY];
    size_t size;                /* of the table */
    bool plain;
};

/* The names that are not expanded yet */
struct kallsyms_names {
    const uint8_t *bytes;
    size_t left;                /* of @bytes */
    struct page_walk *w;        /* for what follows; NULL if that is all */
    uint64_t next;              /* where that is */
    uint8_t *chunk;             /* for @bytes of it */
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
    t->plain = true;
    for (unsigned i = 0; i < TOKENS; i++) {
        t->plain &= linux_is_name(t->table + t->index[i]);
    }
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

/* Has the next entry in @s->bytes, if there is one. */
static void read_names(struct kallsyms_names *s)
{
    size_t n;

    if (!s->w || s->left >= KALLSYMS_NAME_MAX + 2) {
        return;
    }
    memmove(s->chunk, s->bytes, s->left);
    n = page_walk_read_some(s->w, s->next, s->chunk + s->left,
                            NAMES_CHUNK - s->left);
    s->bytes = s->chunk;
    s->left += n;
    s->next += n;
    if (!n) {
        s->w = NULL;
    }
}

/* Few names have the same tag: a search for a name compares tags first. */
static uint16_t tag_of(const char *name, size_t length)
{
    return (uint16_t)(length + 31u * (unsigned char)name[0] +
                      257u * (unsigned char)name[length / 2] +
                      4099u * (unsigned char)name[length - 1]);
}

/* Expands tokens; returns how long the text is, 0 if it is too long. */
static size_t expand_tokens(const struct tokens *t, const uint8_t *tokens,
                            size_t n, char *text)
{
    size_t length = 0;

    for (size_t i = 0; i < n; i++) {
        const char *token = t->table + t->index[tokens[i]];
        size_t size = t->length[tokens[i]];

        if (length + size > KALLSYMS_NAME_MAX) {
            return 0;
        }
        /*
         * Always copying the same size is much quicker, and @text has room for
         * it.
         */
        memcpy(text + length, token, COPY);
        if (size > COPY) {
            memcpy(text + length, token, size);
        }
        length += size;
    }
    text[length] = 0;
    return length;
}

/* Expands the type and name of each symbol to text. */
static bool expand(struct kallsyms *k, const struct tokens *t,
                   struct kallsyms_names *names)
{
    size_t room = (size_t)k->n * NAME_GUESS;

    k->text = g_malloc(room + KALLSYMS_NAME_MAX + 1 + COPY);
    for (uint32_t i = 0; i < k->n; i++) {
        size_t n, entry, length;

        read_names(names);
        entry = entry_size(names->bytes, names->left, &n);
        if (!entry) {
            return false;
        }
        if (k->size > room) {
            room *= 2;
            k->text = g_realloc(k->text, room + KALLSYMS_NAME_MAX + 1 + COPY);
        }
        length = expand_tokens(t, names->bytes + entry - n, n,
                               k->text + k->size);
        if (length < 2 || k->size + length + 1 > TEXT_MAX) {
            return false;
        }
        k->names[i] = (uint32_t)k->size;
        k->tags[i] = tag_of(k->text + k->size + 1, length - 1);
        k->size += length + 1;
        names->bytes += entry;
        names->left -= entry;
    }
    return true;
}

static uint64_t mask_of(unsigned word)
{
    return word == 4 ? UINT32_MAX : UINT64_MAX;
}

static uint64_t address_of(const struct offsets *o, uint32_t i)
{
    uint32_t offset = get32(o->bytes + 4 * (size_t)i);
    uint64_t with_sign = (uint64_t)(int64_t)(int32_t)offset;

    switch (o->form) {
    case BASE_OR_PERCPU:
        return (offset >> 31 ? o->base - 1 - with_sign : offset) & o->mask;
    case BASE:
        return (o->base + offset) & o->mask;
    default:
        return (o->at + 4 * (uint64_t)i + with_sign) & o->mask;
    }
}

/* Returns the next symbol of this name from @i on, @k->n if there is none. */
static uint32_t find_name(const struct kallsyms *k, const char *name,
                          uint32_t i)
{
    size_t length = strlen(name);
    uint16_t tag = length ? tag_of(name, length) : 0;

    while (i < k->n && (k->tags[i] != tag ||
                        strcmp(k->text + k->names[i] + 1, name))) {
        i++;
    }
    return i;
}

/*
 * Takes these offsets, in the first form from o->form to @last that has _stext
 * at its address; their bytes then belong to @k.
 */
static bool take_offsets(struct kallsyms *k, const struct offsets *o,
                         enum form last, uint64_t stext)
{
    uint32_t first = find_name(k, "_stext", 0);

    k->offsets = *o;
    for (; k->offsets.form <= last; k->offsets.form++) {
        for (uint32_t i = first; i < k->n; i = find_name(k, "_stext", i + 1)) {
            if (address_of(&k->offsets, i) == stext) {
                return true;
            }
        }
    }
    k->offsets.bytes = NULL;
    return false;
}

static struct kallsyms *make(const struct tokens *t, uint32_t n,
                             struct kallsyms_names *names)
{
    struct kallsyms *k = g_new0(struct kallsyms, 1);

    k->n = n;
    k->plain = t->plain;
    k->names = g_new(uint32_t, n);
    k->tags = g_new(uint16_t, n);
    if (!expand(k, t, names)) {
        kallsyms_free(k);
        return NULL;
    }
    return k;
}

static struct kallsyms *from_note(struct page_walk *w,
                                  const struct vmcoreinfo *v, uint64_t stext)
{
    g_autofree struct tokens *t = g_new0(struct tokens, 1);
    uint64_t n_at, table_at, index_at, base_at;
    g_autofree uint8_t *chunk = g_malloc(NAMES_CHUNK);
    g_autofree uint8_t *offsets = NULL;
    struct kallsyms_names names = { .bytes = chunk, .w = w, .chunk = chunk };
    unsigned word = page_walk_word(w);
    struct offsets o = { .mask = mask_of(word), .form = PLACE };
    enum form last = PLACE;
    struct kallsyms *k;
    uint32_t n;

    if (!vmcoreinfo_symbol(v, "kallsyms_names", &names.next) ||
        !vmcoreinfo_symbol(v, "kallsyms_num_syms", &n_at) ||
        !vmcoreinfo_symbol(v, "kallsyms_token_table", &table_at) ||
        !vmcoreinfo_symbol(v, "kallsyms_token_index", &index_at) ||
        !vmcoreinfo_symbol(v, "kallsyms_offsets", &o.at) ||
        !tokens_read(t, w, table_at, index_at) ||
        !page_walk_u32(w, n_at, &n) || !n || n > KALLSYMS_MAX) {
        return NULL;
    }
    if (vmcoreinfo_symbol(v, "kallsyms_relative_base", &base_at)) {
        o.form = BASE_OR_PERCPU;
        last = BASE;
        if (!page_walk_number(w, base_at, word, &o.base)) {
            return NULL;
        }
    }
    o.bytes = offsets = g_malloc(4 * (size_t)n);
    if (!page_walk_read(w, o.at, offsets, 4 * (size_t)n)) {
        return NULL;
    }
    k = make(t, n, &names);
    if (k && take_offsets(k, &o, last, stext)) {
        offsets = NULL;
    } else {
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

/* Returns where the markers begin that end at @end, at least two, or 0. */
static size_t markers_before(const uint8_t *image, size_t end)
{
    uint32_t above = NAMES_MAX;
    size_t at = end;

    while (at >= 4 && get32(image + at - 4) < above &&
           above - get32(image + at - 4) <=
           (above == NAMES_MAX ? NAMES_MAX : PER_MARKER * 512)) {
        at -= 4;
        above = get32(image + at);
        if (!above) {
            return end - at < 8 ? 0 : at;
        }
    }
    return 0;
}

/* Can a gap after this many markers be filled by the order of their names? */
static bool is_gap(size_t gap, size_t markers)
{
    return gap < ALIGN_MAX ||
           (gap > SEQ_SIZE * PER_MARKER * (markers - 1) &&
            gap < SEQ_SIZE * PER_MARKER * markers + ALIGN_MAX);
}

/*
 * Returns where the markers before the table of tokens begin, or 0: those that
 * leave the smallest gap from *@gap on, which gets it.
 */
static size_t find_markers(const uint8_t *image, size_t table, size_t *gap,
                           size_t *count)
{
    for (; *gap < SEQ_SIZE * KALLSYMS_MAX && table >= *gap + 8;
         *gap += ALIGN_MIN) {
        size_t end = table - *gap;
        size_t at = markers_before(image, end);

        *count = (end - at) / 4;
        if (at && is_gap(*gap, *count)) {
            return at;
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

    /* From the last on: few places have those and the right number. */
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
static bool find_offsets(struct kallsyms *k, uint8_t *image,
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
            .form = places[i].first,
        };

        if (base > image_size - 8 || places[i].offsets > base) {
            continue;
        }
        o.base = (get32(image + base) |
                  (uint64_t)get32(image + base + 4) << 32) & o.mask;
        if (take_offsets(k, &o, places[i].last, stext)) {
            k->offsets.bytes = g_memdup2(o.bytes, size);
            return true;
        }
    }
    return false;
}

static struct kallsyms *with_markers(uint8_t *image, size_t image_size,
                                     size_t index, size_t markers,
                                     size_t n_markers, const struct tokens *t,
                                     uint64_t stext, unsigned word)
{
    size_t names;
    size_t least;

    least = get32(image + markers + 4 * (n_markers - 1));
    if (markers < least + 16) {
        return NULL;
    }
    names = (markers - least) & ~(size_t)(ALIGN_MIN - 1);
    for (; names >= 16 && markers - names <= least + LAST_MAX;
         names -= ALIGN_MIN) {
        size_t number;
        uint32_t n = count_names(image, names, markers, n_markers, &number);
        struct kallsyms_names all = { .bytes = image + names,
                                      .left = markers - names };
        struct kallsyms *k = n ? make(t, n, &all) : NULL;

        if (k && find_offsets(k, image, image_size, number, index, stext,
                              word)) {
            return k;
        }
        kallsyms_free(k);
    }
    return NULL;
}

static struct kallsyms *with_tokens(uint8_t *image, size_t image_size,
                                    size_t index, size_t table,
                                    const struct tokens *t, uint64_t stext,
                                    unsigned word)
{
    struct kallsyms *k = NULL;
    size_t markers, n_markers, gap = 0;

    for (unsigned i = 0; i < MARKERS_TRIED && !k; i++, gap += ALIGN_MIN) {
        markers = find_markers(image, table, &gap, &n_markers);
        if (!markers) {
            break;
        }
        k = with_markers(image, image_size, index, markers, n_markers, t,
                         stext, word);
    }
    return k;
}

struct kallsyms *kallsyms_search(struct page_walk *w, uint64_t stext)
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
    return k ? k : kallsyms_search(kernel, stext);
}

void kallsyms_free(struct kallsyms *k)
{
    if (k) {
        g_free(k->offsets.bytes);
        g_free(k->names);
        g_free(k->tags);
        g_free(k->text);
        g_free(k);
    }
}

bool kallsyms_is_plain(const struct kallsyms *k)
{
    return k->plain;
}

uint32_t kallsyms_count(const struct kallsyms *k)
{
    return k->n;
}

void kallsyms_get(const struct kallsyms *k, uint32_t i, uint64_t *address,
                  char *type, const char **name)
{
    const char *text = k->text + k->names[i];

    *address = address_of(&k->offsets, i);
    *type = text[0];
    *name = text + 1;
}

bool kallsyms_find(const struct kallsyms *k, const char *name,
                   uint64_t *address)
{
    uint32_t i = find_name(k, name, 0);

    *address = i < k->n ? address_of(&k->offsets, i) : 0;
    return *address != 0;
}
