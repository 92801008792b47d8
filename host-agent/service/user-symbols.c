/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions of guests' programs: see user-symbols.h
 */

#include <glib.h>

#include "service/user-symbols.h"
#include "service/service-error.h"
#include "symbolize/elf-files.h"
#include "util/hash.h"

/*
 * What was asked for is remembered, whether it is there or not; a guest can
 * have any number of paths, so all of them are forgotten after this many.
 */
#define MAX_ASKED   512

/* Lists of folders that sessions have named: each has files that are open. */
#define MAX_BELOW   64

struct user_symbols {
    GMutex lock;
    char **own;                 /* searched before those of the configuration */
    char **sysroots;            /* all */
    char **debug_dirs;
    struct elf_files *files;
    GHashTable *asked;          /* of paths and build-ids */
    GHashTable *below;          /* by their folders; of struct user_symbols */
};

struct user_symbols *user_symbols_new(void)
{
    struct user_symbols *u = g_new0(struct user_symbols, 1);

    g_mutex_init(&u->lock);
    u->asked = g_hash_table_new_full(btrail_str_hash, g_str_equal, g_free,
                                     NULL);
    u->below = g_hash_table_new_full(btrail_str_hash, g_str_equal, g_free,
                                     (GDestroyNotify)user_symbols_free);
    return u;
}

static void forget_folders(struct user_symbols *u)
{
    elf_files_free(u->files);
    u->files = NULL;
    g_hash_table_remove_all(u->asked);
}

void user_symbols_free(struct user_symbols *u)
{
    if (u) {
        forget_folders(u);
        g_hash_table_unref(u->asked);
        g_hash_table_unref(u->below);
        g_strfreev(u->own);
        g_strfreev(u->sysroots);
        g_strfreev(u->debug_dirs);
        g_mutex_clear(&u->lock);
        g_free(u);
    }
}

static void search(struct user_symbols *u, char *const *sysroots,
                   char *const *debug_dirs)
{
    g_autoptr(GStrvBuilder) all = g_strv_builder_new();

    g_mutex_lock(&u->lock);
    forget_folders(u);
    g_strfreev(u->sysroots);
    g_strfreev(u->debug_dirs);
    if (u->own) {
        g_strv_builder_addv(all, (const char **)u->own);
    }
    if (sysroots) {
        g_strv_builder_addv(all, (const char **)sysroots);
    }
    u->sysroots = g_strv_builder_end(all);
    u->debug_dirs = g_strdupv((char **)debug_dirs);
    g_mutex_unlock(&u->lock);
}

void user_symbols_set(struct user_symbols *u,
                      const struct config *config)
{
    GHashTableIter iter;
    gpointer other;

    search(u, config->sysroots, config->debug_dirs);
    g_mutex_lock(&u->lock);
    g_hash_table_iter_init(&iter, u->below);
    while (g_hash_table_iter_next(&iter, NULL, &other)) {
        search(other, u->sysroots, u->debug_dirs);
    }
    g_mutex_unlock(&u->lock);
}

void *user_symbols_below(void *opaque, const char *const *folders,
                         GError **error)
{
    g_autofree char *key = g_strjoinv("\n", (char **)folders);
    struct user_symbols *u = opaque, *other;

    g_mutex_lock(&u->lock);
    other = g_hash_table_lookup(u->below, key);
    if (!other && g_hash_table_size(u->below) < MAX_BELOW) {
        other = user_symbols_new();
        other->own = g_strdupv((char **)folders);
        search(other, u->sysroots, u->debug_dirs);
        g_hash_table_insert(u->below, g_steal_pointer(&key), other);
    }
    g_mutex_unlock(&u->lock);
    if (!other) {
        service_fail(error, SERVICE_ERROR_COMMAND, "sessions have named "
                     "sysroots %d times since this service was started, which "
                     "is the most", MAX_BELOW);
    }
    return other;
}

/* Under the lock; the file lives as long as that is held. */
static struct elf_file *find_file(struct user_symbols *u,
                                  const char *path, const char *build_id)
{
    const struct elf_files_options options = {
        .sysroots = u->sysroots,
        .debug_dirs = u->debug_dirs,
    };

    if (g_hash_table_size(u->asked) >= MAX_ASKED) {
        forget_folders(u);
    }
    if (!u->files) {
        u->files = elf_files_new(&options);
    }
    g_hash_table_add(u->asked, g_strdup_printf("%s\n%s", path,
                                               build_id ? build_id : ""));
    return elf_files_get(u->files, path, build_id);
}

/* All functions that somebody means by the name */
static enum symbol_answer find_offsets(struct elf_file *f, const char *symbol,
                                       GArray *offsets)
{
    size_t n;
    const struct elf_symbol *all = elf_file_symbols(f, &n);
    const GArray *found = elf_file_find_all(f, symbol);
    unsigned before = offsets->len;

    for (unsigned i = 0; i < found->len; i++) {
        uint64_t offset;

        if (elf_file_offset(f, all[g_array_index(found, unsigned, i)].start,
                            &offset)) {
            g_array_append_val(offsets, offset);
        }
    }
    return !found->len ? SYMBOL_NONE : offsets->len > before ? SYMBOL_FOUND :
           SYMBOL_NO_FILE;
}

enum symbol_answer
user_symbols_find(void *opaque, const char *path,
                  const uint8_t *build_id, size_t build_id_size,
                  const char *symbol, GArray *offsets)
{
    struct user_symbols *u = opaque;
    g_autoptr(GString) id = g_string_new(NULL);
    enum symbol_answer answer = SYMBOL_NO_FILE;
    struct elf_file *f;

    for (size_t i = 0; i < build_id_size; i++) {
        g_string_append_printf(id, "%02x", build_id[i]);
    }
    g_mutex_lock(&u->lock);
    f = find_file(u, path, build_id_size ? id->str : NULL);
    if (f) {
        answer = find_offsets(f, symbol, offsets);
    }
    g_mutex_unlock(&u->lock);
    return answer;
}
