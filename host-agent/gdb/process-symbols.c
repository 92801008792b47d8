/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The symbols of the process that runs: see process-symbols.h
 *
 * Of files, what is needed is copied to the private folder, see program-file.h,
 * and numbered.  Of the copy's name a guest chooses only an end of letters and
 * digits.  To gdb, two libraries of one name are one, wherever they are mapped:
 * the copy has a name for each place.
 */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gdb/process-symbols.h"
#include "gdb/program-file.h"

/* The most lists, and the most files in each: a guest can map many */
#define MAX_LISTS   10000
#define MAX_FILES   500

#define COPY    "mapped-"
#define NAME_MAX_SHOWN  64

/**
 * struct placed - a file at a place
 * @home:  its number, from 1
 * @name:  of a copy in the folder
 * @start: the first address that is loaded of it
 * @copied: there is a copy
 */
struct placed {
    unsigned home;
    char *name;
    uint64_t start;
    bool copied;
};

/* Addresses of a file in a list */
struct placed_range {
    const struct placed *file;
    uint64_t start;
    uint64_t end;
};

/**
 * struct copied_file - of a file, wherever it is mapped
 * @path:  NULL if there can be none
 * @start: of program_file_copy()
 */
struct copied_file {
    char *path;
    uint64_t start;
};

/**
 * struct process_symbols
 * @owner:  of the files, 0 for all gdbs
 * @copies: path of a file -> struct copied_file
 * @placed: "BIAS PATH" -> struct placed
 * @lists:  arrays of struct placed_range, in the order of their numbers
 * @numbers: what a list is made of -> its number
 */
struct process_symbols {
    struct symbolizer *symbols;
    char *folder;
    unsigned owner;
    GHashTable *copies;
    GHashTable *placed;
    GPtrArray *lists;
    GHashTable *numbers;
};

static void free_copy(gpointer opaque)
{
    struct copied_file *c = opaque;

    g_free(c->path);
    g_free(c);
}

static void free_placed(gpointer opaque)
{
    struct placed *f = opaque;

    g_free(f->name);
    g_free(f);
}

static GArray *new_ranges(void)
{
    return g_array_new(FALSE, FALSE, sizeof(struct placed_range));
}

/* The number of a list, which is taken */
static unsigned add_list(struct process_symbols *p, GArray *ranges,
                         const char *key)
{
    g_hash_table_insert(p->numbers, g_strdup(key),
                        GUINT_TO_POINTER(p->lists->len));
    g_ptr_array_add(p->lists, ranges);
    return p->lists->len - 1;
}

struct process_symbols *process_symbols_new(struct symbolizer *symbols,
                                            const char *folder)
{
    struct process_symbols *p = g_new0(struct process_symbols, 1);

    p->symbols = symbols;
    p->folder = g_strdup(folder);
    p->copies = g_hash_table_new_full(g_str_hash, g_str_equal, g_free,
                                      free_copy);
    p->placed = g_hash_table_new_full(g_str_hash, g_str_equal, g_free,
                                      free_placed);
    p->lists = g_ptr_array_new_with_free_func((GDestroyNotify)g_array_unref);
    p->numbers = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    add_list(p, new_ranges(), "");
    return p;
}

void process_symbols_free(struct process_symbols *p)
{
    if (p) {
        g_hash_table_unref(p->copies);
        g_hash_table_unref(p->placed);
        g_ptr_array_unref(p->lists);
        g_hash_table_unref(p->numbers);
        g_free(p->folder);
        g_free(p);
    }
}

void process_symbols_own(struct process_symbols *p, unsigned number)
{
    p->owner = number;
}

void process_symbols_forget(struct process_symbols *p, unsigned number)
{
    GDir *dir = g_dir_open(p->folder, 0, NULL);
    const char *name;

    while (dir && (name = g_dir_read_name(dir))) {
        if (g_str_has_prefix(name, COPY) &&
            strtoul(name + strlen(COPY), NULL, 10) == number) {
            g_autofree char *path = g_build_filename(p->folder, name, NULL);

            unlink(path);
        }
    }
    if (dir) {
        g_dir_close(dir);
    }
}

/* What a file at a place is known by */
static char *place_key(const char *path, uint64_t bias)
{
    return g_strdup_printf("%" PRIx64 " %s", bias, path);
}

/* The name that people know a file by, if it is a plain one */
static const char *name_of(const char *path)
{
    const char *name = strrchr(path, '/');
    size_t n;

    name = name ? name + 1 : path;
    n = strspn(name, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "._+-");
    return name[n] || n > NAME_MAX_SHOWN ? "" : name;
}

/* Makes a copy of a file that is called @name; false if there is none. */
static bool make_copy(struct process_symbols *p, const char *path,
                      const char *name, uint64_t *start)
{
    struct copied_file *c = g_hash_table_lookup(p->copies, path);
    g_autofree char *to = g_build_filename(p->folder, name, NULL);
    bool copied;

    if (c) {
        copied = c->path && !link(c->path, to);
    } else {
        c = g_new0(struct copied_file, 1);
        g_hash_table_insert(p->copies, g_strdup(path), c);
        copied = program_file_copy(path, to, &c->start);
        c->path = copied ? g_steal_pointer(&to) : NULL;
    }
    *start = c->start;
    return copied;
}

/* A file at a place; NULL if gdb can get none */
static const struct placed *place(struct process_symbols *p, const char *path,
                                  uint64_t bias)
{
    g_autofree char *key = place_key(path, bias);
    struct placed *f = g_hash_table_lookup(p->placed, key);

    if (!f) {
        f = g_new0(struct placed, 1);
        f->home = g_hash_table_size(p->placed) + 1;
        f->name = g_strdup_printf(COPY "%u-%u-%s", p->owner, f->home,
                                  name_of(path));
        f->copied = make_copy(p, path, f->name, &f->start);
        f->start += bias;
        g_hash_table_insert(p->placed, g_steal_pointer(&key), f);
    }
    return f->copied ? f : NULL;
}

/**
 * struct list_making - of a list
 * @key:   what it is made of
 * @files: how many there are
 */
struct list_making {
    struct process_symbols *symbols;
    GArray *ranges;
    GString *key;
    unsigned files;
};

static const struct placed_range *range_at(const GArray *ranges, guint i)
{
    return &g_array_index(ranges, struct placed_range, i);
}

static bool has_file(const GArray *ranges, unsigned home)
{
    for (guint i = 0; i < ranges->len; i++) {
        if (range_at(ranges, i)->file->home == home) {
            return true;
        }
    }
    return false;
}

static void add_file(void *opaque, const struct mapping *m, uint64_t bias)
{
    struct list_making *making = opaque;
    const char *path = elf_file_info(m->elf)->path;
    /* An image of the trace, such as the vDSO, is in no file. */
    const struct placed *f = making->files < MAX_FILES &&
                             !g_str_has_prefix(path, "/proc/self/") ?
                             place(making->symbols, path, bias) : NULL;
    const struct placed_range range = { f, m->start, m->end };

    if (f) {
        making->files += !has_file(making->ranges, f->home);
        g_array_append_val(making->ranges, range);
        g_string_append_printf(making->key, "%u %" PRIx64 " %" PRIx64 "\n",
                               f->home, m->start, m->end);
    }
}

unsigned process_symbols_list(struct process_symbols *p,
                              const struct process *process,
                              const struct symbolizer_where *where,
                              uint64_t pc)
{
    g_autoptr(GArray) ranges = new_ranges();
    g_autoptr(GString) key = g_string_new(NULL);
    struct list_making making = { p, ranges, key, 0 };
    gpointer known;

    if (process) {
        symbolizer_files(p->symbols, process, where, pc, add_file, &making);
    }
    if (g_hash_table_lookup_extended(p->numbers, key->str, NULL, &known)) {
        return GPOINTER_TO_UINT(known);
    }
    return p->lists->len < MAX_LISTS ?
        add_list(p, g_steal_pointer(&ranges), key->str) : 0;
}

static const GArray *ranges_of(const struct process_symbols *p, unsigned list)
{
    return g_ptr_array_index(p->lists, list < p->lists->len ? list : 0);
}

char *process_symbols_xml(const struct process_symbols *p, unsigned list)
{
    const GArray *ranges = ranges_of(p, list);
    GString *xml = g_string_new("<library-list>");

    for (guint i = 0; i < ranges->len; i++) {
        const struct placed *f = range_at(ranges, i)->file;
        bool before = false;

        /* It can have several mappings of code. */
        for (guint j = 0; j < i; j++) {
            before |= range_at(ranges, j)->file == f;
        }
        if (!before) {
            g_string_append_printf(xml, "<library name=\"%s\"><segment "
                                   "address=\"0x%" PRIx64 "\"/></library>",
                                   f->name, f->start);
        }
    }
    g_string_append(xml, "</library-list>");
    return g_string_free(xml, FALSE);
}

unsigned process_symbols_home(const struct process_symbols *p, unsigned list,
                              uint64_t address)
{
    const GArray *ranges = ranges_of(p, list);

    for (guint i = 0; i < ranges->len; i++) {
        const struct placed_range *r = range_at(ranges, i);

        if (address - r->start < r->end - r->start) {
            return r->file->home;
        }
    }
    return 0;
}

/* A file that is looked for */
struct wanted_home {
    const struct process_symbols *symbols;
    unsigned home;
    bool found;
};

static void compare_home(void *opaque, const struct mapping *m, uint64_t bias)
{
    struct wanted_home *w = opaque;
    g_autofree char *key = place_key(elf_file_info(m->elf)->path, bias);
    const struct placed *f = g_hash_table_lookup(w->symbols->placed, key);

    w->found |= f && f->home == w->home;
}

bool process_symbols_maps(const struct process_symbols *p,
                          const struct process *process,
                          const struct symbolizer_where *where, uint64_t pc,
                          unsigned home)
{
    struct wanted_home wanted = { p, home, false };

    if (process) {
        symbolizer_files(p->symbols, process, where, pc, compare_home,
                         &wanted);
    }
    return wanted.found;
}

bool process_symbols_has(const struct process_symbols *p, unsigned list,
                         unsigned home)
{
    return has_file(ranges_of(p, list), home);
}
