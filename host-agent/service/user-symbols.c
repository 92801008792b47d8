/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions of guests' programs: see user-symbols.h
 */

#include <glib.h>

#include "service/user-symbols.h"
#include "symbolize/elf-files.h"
#include "util/hash.h"

/*
 * What was asked for is remembered, whether it is there or not; a guest can
 * have any number of paths, so all of them are forgotten after this many.
 */
#define MAX_ASKED   512

struct user_symbols {
    GMutex lock;
    char **sysroots;
    char **debug_dirs;
    struct elf_files *files;
    GHashTable *asked;          /* of paths and build-ids */
};

struct user_symbols *user_symbols_new(void)
{
    struct user_symbols *u = g_new0(struct user_symbols, 1);

    g_mutex_init(&u->lock);
    u->asked = g_hash_table_new_full(btrail_str_hash, g_str_equal, g_free,
                                     NULL);
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
        g_strfreev(u->sysroots);
        g_strfreev(u->debug_dirs);
        g_mutex_clear(&u->lock);
        g_free(u);
    }
}

void user_symbols_set(struct user_symbols *u,
                      const struct config *config)
{
    g_mutex_lock(&u->lock);
    forget_folders(u);
    g_strfreev(u->sysroots);
    g_strfreev(u->debug_dirs);
    u->sysroots = g_strdupv(config->sysroots);
    u->debug_dirs = g_strdupv(config->debug_dirs);
    g_mutex_unlock(&u->lock);
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
