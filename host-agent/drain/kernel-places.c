/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The places of a symbol of the kernel: see kernel-places.h
 */

#include <glib.h>
#include <string.h>

#include "drain/kernel-places.h"
#include "lib/agent/symbol-list.h"
#include "util/function-name.h"
#include "util/kallsyms-line.h"
#include "util/search.h"

/*
 * How many mangled names of one text are compared with what is searched for: a
 * guest can have made all of its names for that, and others wait meanwhile.  A
 * kernel with much Rust has some ten thousands, of which few have the word.
 */
#define MANGLED_MAX     (1u << 16)

/* What one text has */
struct kernel_addresses {
    GArray *addresses;          /* uint64_t, sorted, each once */
    uint16_t kernel;
    bool capped;
};

struct kernel_places {
    char *symbol;
    size_t size;                /* of it */
    const char *word;           /* that a mangled name for it has in it */
    GMutex lock;                /* for whoever changes or shares what follows */
    struct kernel_addresses own, loaded;
    unsigned count;             /* atomic */
    bool capped;                /* atomic */
};

/* The last part, if it is the name that the source has: "c" of "a::b::c" */
static const char *last_word(const char *symbol)
{
    const char *c = symbol + strlen(symbol);

    while (c > symbol && (g_ascii_isalnum(c[-1]) || c[-1] == '_')) {
        c--;
    }
    return c == symbol || c[-1] == ':' ? c : "";
}

struct kernel_places *kernel_places_new(const char *symbol)
{
    struct kernel_places *p = g_new0(struct kernel_places, 1);

    p->symbol = g_strdup(symbol);
    p->size = strlen(symbol);
    p->word = last_word(p->symbol);
    g_mutex_init(&p->lock);
    p->own.addresses = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    p->loaded.addresses = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    return p;
}

void kernel_places_free(struct kernel_places *p)
{
    if (p) {
        g_free(p->symbol);
        g_mutex_clear(&p->lock);
        g_array_unref(p->own.addresses);
        g_array_unref(p->loaded.addresses);
        g_free(p);
    }
}

static gint compare_addresses(gconstpointer a, gconstpointer b)
{
    const uint64_t *x = a, *y = b;

    return BTRAIL_COMPARE(*x, *y);
}

/* Sorts them and removes aliases. */
static void finish(struct kernel_addresses *found)
{
    uint64_t *all = (uint64_t *)(void *)found->addresses->data;
    unsigned kept = 0;

    g_array_sort(found->addresses, compare_addresses);
    for (unsigned i = 0; i < found->addresses->len; i++) {
        if (!kept || all[kept - 1] != all[i]) {
            all[kept++] = all[i];
        }
    }
    g_array_set_size(found->addresses, kept);
}

static bool has_address(const struct kernel_addresses *a, uint64_t address,
                        const uint16_t *kernel)
{
    const uint64_t *all = (const uint64_t *)(const void *)a->addresses->data;
    size_t n = btrail_up_to(all, a->addresses->len, sizeof(*all), false, 0,
                            address);

    return (!kernel || *kernel == a->kernel) && n && all[n - 1] == address;
}

static void replace(struct kernel_places *p, struct kernel_addresses *found,
                    bool loaded)
{
    struct kernel_addresses *to = loaded ? &p->loaded : &p->own;
    GArray *old = to->addresses;

    finish(found);
    g_mutex_lock(&p->lock);
    *to = *found;
    /* The symbols of what a kernel has loaded come after its own. */
    if (!loaded) {
        g_array_set_size(p->loaded.addresses, 0);
        p->loaded.capped = false;
    }
    g_mutex_unlock(&p->lock);
    g_array_unref(old);
    __atomic_store_n(&p->count, p->own.addresses->len +
                     p->loaded.addresses->len, __ATOMIC_RELAXED);
    __atomic_store_n(&p->capped, p->own.capped || p->loaded.capped,
                     __ATOMIC_RELAXED);
}

/* Does it begin as mangled names do? */
static bool is_mangled(const struct btrail_kallsyms_line *line)
{
    return line->name_size > 2 && line->name[0] == '_' &&
           strchr("ZRD", line->name[1]);
}

/* Can it be this name with something added? */
static bool begins_with(const struct btrail_kallsyms_line *line,
                        const struct kernel_places *p)
{
    return line->name_size >= p->size &&
           !memcmp(line->name, p->symbol, p->size) &&
           (line->name_size == p->size || line->name[p->size] == '.');
}

/* Adds a symbol if its name is meant.  @name gets it, if it is empty. */
static void try_symbol(const struct kernel_places *p,
                       const struct btrail_kallsyms_line *line, GString *name,
                       unsigned *budget, struct kernel_addresses *found)
{
    if (!name->len) {
        g_string_append_len(name, line->name, line->name_size);
    }
    if (!begins_with(line, p)) {
        if (!strstr(name->str, p->word)) {
            return;
        }
        if (!*budget) {
            found->capped = true;
            return;
        }
        --*budget;
    }
    if (!function_name_is(name->str, p->symbol)) {
        return;
    }
    if (found->addresses->len < KERNEL_PLACES_MAX) {
        g_array_append_val(found->addresses, line->address);
    } else {
        found->capped = true;
    }
}

void kernel_places_symbols(struct kernel_places *const *all, unsigned n,
                           uint16_t kernel, const char *text, size_t size)
{
    g_autofree struct kernel_addresses *found =
        g_new0(struct kernel_addresses, n);
    g_autoptr(GString) name = g_string_new(NULL);
    const char *end = text + size;
    struct btrail_kallsyms_line line;
    unsigned budget = MANGLED_MAX;
    bool loaded = true;

    for (unsigned i = 0; i < n; i++) {
        found[i].addresses = g_array_new(FALSE, FALSE, sizeof(uint64_t));
        found[i].kernel = kernel;
    }
    while (btrail_kallsyms_next(&text, end, &line)) {
        loaded = line.module;
        if (!line.address || !btrail_symbol_is_code(line.type)) {
            continue;
        }
        g_string_truncate(name, 0);
        for (unsigned i = 0; i < n; i++) {
            if (begins_with(&line, all[i]) || is_mangled(&line)) {
                try_symbol(all[i], &line, name, &budget, &found[i]);
            }
        }
    }
    for (unsigned i = 0; i < n; i++) {
        replace(all[i], &found[i], loaded);
    }
}

bool kernel_places_has(struct kernel_places *p, uint64_t address,
                       const uint16_t *kernel)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&p->lock);

    return has_address(&p->own, address, kernel) ||
           has_address(&p->loaded, address, kernel);
}

unsigned kernel_places_count(const struct kernel_places *p)
{
    return __atomic_load_n(&p->count, __ATOMIC_RELAXED);
}

bool kernel_places_capped(const struct kernel_places *p)
{
    return __atomic_load_n(&p->capped, __ATOMIC_RELAXED);
}

static void each(const struct kernel_addresses *a,
                 void (*fn)(void *opaque, uint64_t address), void *opaque)
{
    for (unsigned i = 0; i < a->addresses->len; i++) {
        fn(opaque, g_array_index(a->addresses, uint64_t, i));
    }
}

void kernel_places_each(const struct kernel_places *p,
                        void (*fn)(void *opaque, uint64_t address),
                        void *opaque)
{
    /* Only this thread changes them. */
    each(&p->own, fn, opaque);
    each(&p->loaded, fn, opaque);
}
