/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Finding ELF files: see elf-files.h
 *
 * The guest chooses paths and symbolic links below a sysroot, and none of them
 * may lead out of it.  So each component is resolved by itself.
 */

#include <glib.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbolize/elf-files.h"
#include "util/hash.h"

#define MAX_LINKS   40

/* As many images as an agent keeps of a guest, and their size */
#define MAX_IMAGES  64
#define MAX_DYNAMIC 256
#define IMAGE_SIZE  (4u << 20)

struct elf_files {
    GStrv sysroots;
    GPtrArray *debug_dirs;      /* of char * */
    struct debuginfod *debuginfod;
    GHashTable *known;          /* key -> struct elf_file *, NULL for none */
    unsigned images;
    GHashTable *functions;      /* build-id -> struct elf_file * */
    GHashTable *by_path;        /* path on the host -> struct elf_file * */
};

static void close_elf(gpointer f)
{
    elf_file_close(f);
}

char *elf_files_images(void)
{
    return g_build_filename(g_get_user_cache_dir(), "backtrail", "images",
                            NULL);
}

struct elf_files *elf_files_new(const struct elf_files_options *options)
{
    struct elf_files *files = g_new0(struct elf_files, 1);
    const char *cache = g_getenv("DEBUGINFOD_CACHE_PATH");

    files->sysroots = g_strdupv((char **)options->sysroots);
    files->debuginfod = options->debuginfod;
    files->debug_dirs = g_ptr_array_new_with_free_func(g_free);
    for (unsigned i = 0; options->debug_dirs && options->debug_dirs[i]; i++) {
        g_ptr_array_add(files->debug_dirs, g_strdup(options->debug_dirs[i]));
    }
    g_ptr_array_add(files->debug_dirs, cache && *cache ? g_strdup(cache) :
                    g_build_filename(g_get_user_cache_dir(),
                                     "debuginfod_client", NULL));
    g_ptr_array_add(files->debug_dirs, elf_files_images());
    g_ptr_array_add(files->debug_dirs, g_strdup("/usr/lib/debug"));
    files->known = g_hash_table_new_full(btrail_str_hash, g_str_equal, g_free,
                                         NULL);
    files->by_path = g_hash_table_new_full(btrail_str_hash, g_str_equal, g_free,
                                           close_elf);
    files->functions = g_hash_table_new_full(btrail_str_hash, g_str_equal,
                                             g_free, close_elf);
    return files;
}

void elf_files_free(struct elf_files *files)
{
    if (!files) {
        return;
    }
    g_strfreev(files->sysroots);
    g_ptr_array_unref(files->debug_dirs);
    g_hash_table_unref(files->known);
    g_hash_table_unref(files->by_path);
    g_hash_table_unref(files->functions);
    g_free(files);
}

char *elf_files_resolve(const char *sysroot, const char *path)
{
    GString *done = g_string_new(sysroot);
    size_t root = done->len;
    g_autofree char *rest = g_strdup(path);
    unsigned links = 0;
    struct stat st;

    while (*rest) {
        size_t skip = strspn(rest, "/");
        size_t len = strcspn(rest + skip, "/");
        g_autofree char *name = g_strndup(rest + skip, len);
        char *after = g_strdup(rest + skip + len);

        g_free(rest);
        rest = after;
        if (!len || !strcmp(name, ".")) {
            continue;
        }
        if (!strcmp(name, "..")) {
            char *slash = strrchr(done->str, '/');

            if (done->len > root && slash) {
                g_string_truncate(done, MAX(slash - done->str, (gssize)root));
            }
            continue;
        }
        g_string_append_printf(done, "/%s", name);
        if (lstat(done->str, &st)) {
            break;
        }
        if (S_ISLNK(st.st_mode)) {
            char target[PATH_MAX];
            ssize_t n = readlink(done->str, target, sizeof(target) - 1);
            char *joined;

            if (n <= 0 || ++links > MAX_LINKS) {
                break;
            }
            target[n] = '\0';
            g_string_truncate(done, *target == '/' ? root :
                              done->len - strlen(name) - 1);
            joined = g_strdup_printf("%s/%s", target, rest);
            g_free(rest);
            rest = joined;
        }
    }
    if (*rest || done->len == root || stat(done->str, &st) ||
        !S_ISREG(st.st_mode)) {
        g_string_free(done, TRUE);
        return NULL;
    }
    return g_string_free(done, FALSE);
}

static bool has_id(const struct elf_file *f, const char *build_id)
{
    return !build_id || !g_strcmp0(elf_file_info(f)->build_id, build_id);
}

/* Opens a file if it has this build-id; otherwise returns NULL. */
static struct elf_file *open_if(const char *path, const char *build_id)
{
    struct elf_file *f = elf_file_open(path);

    if (f && !has_id(f, build_id)) {
        elf_file_close(f);
        return NULL;
    }
    return f;
}

/* The paths that a file of a build-id can have in a folder; NULL at the end */
static char *place_of(const char *dir, const char *id, bool debug,
                      unsigned form)
{
    const char *suffix = debug ? ".debug" : "";

    switch (form) {
    case 0:
        return g_strdup_printf("%s/%s/%s", dir, id,
                               debug ? "debuginfo" : "executable");
    case 1:
        return g_strdup_printf("%s/.build-id/%.2s/%s%s", dir, id, id + 2,
                               suffix);
    case 2:
        return g_strdup_printf("%s/%.2s/%s%s", dir, id, id + 2, suffix);
    default:
        return NULL;
    }
}

/* Opens a file by its build-id: the debugging information, or the file. */
static struct elf_file *open_by_id(const struct elf_files *files,
                                   const char *id, bool debug)
{
    g_autofree char *fetched = NULL;
    unsigned i, form;

    if (strlen(id) < 3 || strspn(id, "0123456789abcdef") != strlen(id)) {
        return NULL;
    }
    for (i = 0; i < files->debug_dirs->len; i++) {
        for (form = 0; form < 3; form++) {
            g_autofree char *path = place_of(files->debug_dirs->pdata[i], id,
                                             debug, form);
            struct elf_file *f = open_if(path, id);

            if (f) {
                return f;
            }
        }
    }
    /* With its functions, what was stripped from it suffices. */
    fetched = files->debuginfod &&
              (debug || !g_hash_table_contains(files->functions, id)) ?
              debuginfod_fetch(files->debuginfod, id, debug) : NULL;
    return fetched ? open_if(fetched, id) : NULL;
}

/* Opens the file with the debugging information of @f. */
static struct elf_file *open_debug(const struct elf_files *files,
                                   struct elf_file *f, const char *sysroot)
{
    const struct elf_file_info *info = elf_file_info(f);
    const char *id = info->build_id, *link = info->debug_link;
    struct elf_file *debug = id ? open_by_id(files, id, true) : NULL;
    g_autofree char *path = NULL, *folder = NULL;

    if (debug || !id) {
        return debug;
    }
    if (sysroot) {
        g_autofree char *name = g_strdup_printf("/usr/lib/debug/.build-id/"
                                                "%.2s/%s.debug", id, id + 2);

        path = elf_files_resolve(sysroot, name);
        debug = path ? open_if(path, id) : NULL;
    }
    if (!debug && link && *link && !strchr(link, '/')) {
        folder = g_path_get_dirname(info->path);
        for (unsigned i = 0; !debug && i < 2; i++) {
            g_autofree char *beside = g_build_filename(folder,
                                                       i ? ".debug" : "",
                                                       link, NULL);

            if (strcmp(beside, info->path)) {
                debug = open_if(beside, id);
            }
        }
    }
    return debug;
}

static struct elf_file *keep_elf(struct elf_files *files, struct elf_file *f,
                             const char *sysroot)
{
    struct elf_file *known, *debug;

    if (!f) {
        return NULL;
    }
    known = g_hash_table_lookup(files->by_path, elf_file_info(f)->path);
    if (known) {
        elf_file_close(f);
        return known;
    }
    if (!elf_file_has_symbols(f) || !elf_file_has_lines(f)) {
        debug = open_debug(files, f, sysroot);
        if (debug) {
            elf_file_set_debug(f, debug);
        }
    }
    g_hash_table_insert(files->by_path, g_strdup(elf_file_info(f)->path), f);
    return f;
}

/* The functions of a file, with what was stripped from it */
static struct elf_file *with_debug(const struct elf_files *files,
                                   const char *build_id)
{
    struct elf_file *f = g_hash_table_lookup(files->functions, build_id);
    struct elf_file *debug = open_by_id(files, build_id, true);

    if (debug) {
        elf_file_set_debug(f, debug);
    }
    return f;
}

static struct elf_file *find_elf(struct elf_files *files, const char *path,
                             const char *build_id)
{
    struct elf_file *f = NULL;

    for (unsigned i = 0; path && *path == '/' && files->sysroots &&
         files->sysroots[i]; i++) {
        g_autofree char *place = elf_files_resolve(files->sysroots[i], path);

        f = place ? open_if(place, build_id) : NULL;
        if (f) {
            return keep_elf(files, f, files->sysroots[i]);
        }
    }
    if (build_id) {
        f = open_by_id(files, build_id, false);
        if (!f && g_hash_table_contains(files->functions, build_id)) {
            return path ? elf_files_get(files, NULL, build_id) :
                   with_debug(files, build_id);
        }
        if (!f) {
            /* This has no code, but symbols and lines. */
            f = open_by_id(files, build_id, true);
        }
    }
    return keep_elf(files, f, NULL);
}

struct elf_file *elf_files_get(struct elf_files *files, const char *path,
                               const char *build_id)
{
    g_autofree char *key = g_strdup_printf("%s\n%s", path ? path : "",
                                           build_id ? build_id : "");
    struct elf_file *f;
    gpointer known;

    if (g_hash_table_lookup_extended(files->known, key, NULL, &known)) {
        return known;
    }
    f = find_elf(files, path, build_id);
    g_hash_table_insert(files->known, g_steal_pointer(&key), f);
    return f;
}

/* Opens an ELF image that is in no file; NULL if it is none. */
static struct elf_file *open_image(const void *image, size_t size, size_t most)
{
    g_autofree char *place = NULL;
    struct elf_file *f = NULL;
    int fd = size <= most ?
             memfd_create("backtrail-image", MFD_CLOEXEC) : -1;

    if (fd < 0) {
        return NULL;
    }
    place = g_strdup_printf("/proc/self/fd/%d", fd);
    if (write(fd, image, size) == (ssize_t)size) {
        f = elf_file_open(place);
    }
    close(fd);
    return f;
}

bool elf_files_add_image(struct elf_files *files, const char *path,
                         const void *image, size_t size)
{
    struct elf_file *f = files->images < MAX_IMAGES ?
                         open_image(image, size, IMAGE_SIZE) : NULL;
    g_autofree char *name = NULL;
    const char *id;

    if (!f) {
        return false;
    }
    id = elf_file_info(f)->build_id;
    name = g_strdup_printf("%s\n%s", path, id ? id : "");
    if (g_hash_table_contains(files->known, name)) {
        elf_file_close(f);
        return true;
    }
    files->images++;
    g_hash_table_insert(files->by_path, g_strdup(name), f);
    g_hash_table_insert(files->known, g_strdup(name), f);
    if (id) {
        g_hash_table_insert(files->known, g_strdup_printf("%s\n", path), f);
    }
    return true;
}

/* Returns its build-id; NULL if it cannot be used. */
static const char *add_functions(struct elf_files *files, const void *image,
                                 size_t size, size_t most)
{
    struct elf_file *f = open_image(image, size, most);

    if (!f || !elf_file_info(f)->build_id) {
        elf_file_close(f);
        return NULL;
    }
    g_hash_table_insert(files->functions,
                        g_strdup(elf_file_info(f)->build_id), f);
    return elf_file_info(f)->build_id;
}

bool elf_files_add_functions(struct elf_files *files, const void *image,
                             size_t size)
{
    return g_hash_table_size(files->functions) < MAX_DYNAMIC &&
           add_functions(files, image, size, IMAGE_SIZE);
}

const char *elf_files_add_own(struct elf_files *files, const void *image,
                              size_t size)
{
    return add_functions(files, image, size, SIZE_MAX);
}

struct elf_file *elf_files_host(struct elf_files *files, const char *path)
{
    struct elf_file *f = g_hash_table_lookup(files->by_path, path);

    return f ? f : keep_elf(files, elf_file_open(path), NULL);
}
