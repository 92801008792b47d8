/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A recording: see recording.h
 */

#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replay/recording.h"
#include "util/json.h"

#define FORMAT          "backtrail recording"
/* A version that does not know of bases would switch the guest on. */
#define VERSION         1
#define VERSION_BASE    2
/*
 * One that does not know of rings would begin with what is not there any
 * more.
 */
#define VERSION_RING    3
/* No manifest is longer, and none has more files or arguments. */
#define MAX_MANIFEST    (1u << 20)
#define MAX_FILES       1000
#define MAX_ARGUMENTS   1000
#define MAX_DEPTH       8
#define MAX_VCPUS       256
/* Bytes of a SHA-256, and of a file that are read at once */
#define HASH_SIZE       32
#define HASH_PIECE      (1u << 20)

static void free_file(struct recorded_file *f)
{
    g_free(f->name);
    g_free(f->source);
    g_free(f->sha256);
    g_free(f->overlay);
}

static void free_file_pointer(void *f)
{
    free_file(f);
    g_free(f);
}

struct recording *recording_new(const char *folder)
{
    struct recording *r = g_new0(struct recording, 1);

    r->folder = g_canonicalize_filename(folder, NULL);
    r->files = g_ptr_array_new_with_free_func(free_file_pointer);
    r->log.name = g_strdup(RECORDING_LOG);
    return r;
}

void recording_free(struct recording *r)
{
    if (r) {
        g_free(r->folder);
        g_free(r->qemu);
        g_free(r->qemu_version);
        g_free(r->qemu_sha256);
        g_free(r->icount);
        g_strfreev(r->arguments);
        g_ptr_array_unref(r->files);
        g_free(r->base);
        free_file(&r->log);
        g_free(r);
    }
}

void recording_add_file(struct recording *r, const char *name,
                        const char *source, uint64_t size,
                        const char *sha256)
{
    struct recorded_file *f = g_new0(struct recorded_file, 1);

    f->name = g_strdup(name);
    f->source = g_strdup(source);
    f->size = size;
    f->sha256 = g_strdup(sha256);
    g_ptr_array_add(r->files, f);
}

struct recorded_file *recording_find_file(const struct recording *r,
                                          const char *name)
{
    for (unsigned i = 0; i < r->files->len; i++) {
        struct recorded_file *f = g_ptr_array_index(r->files, i);

        if (!strcmp(f->name, name)) {
            return f;
        }
    }
    return NULL;
}

void recording_remove_files(struct recording *r, const char *prefix)
{
    for (unsigned i = r->files->len; i--;) {
        const struct recorded_file *f = g_ptr_array_index(r->files, i);

        if (g_str_has_prefix(f->name, prefix)) {
            g_ptr_array_remove_index(r->files, i);
        }
    }
}

char *recording_path(const struct recording *r, const char *name)
{
    return g_build_filename(r->folder, name, NULL);
}

static bool G_GNUC_PRINTF(3, 4) refuse(GError **error, const char *folder,
                                       const char *format, ...)
{
    g_autofree char *what = NULL;
    va_list args;

    va_start(args, format);
    what = g_strdup_vprintf(format, args);
    va_end(args);
    g_set_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL,
                "%s: %s", folder, what);
    return false;
}

static bool damaged(GError **error, const char *folder, const char *what)
{
    return refuse(error, folder, RECORDING_MANIFEST " is damaged: %s; "
                  "copy the recording again from where it was made", what);
}

/* The name of a file of ring/, which has no further folders */
static bool is_of_ring(const char *name)
{
    const char *file = name + strlen(RECORDING_RING "/");

    return g_str_has_prefix(name, RECORDING_RING "/") &&
           g_ascii_isalnum(*file) &&
           !file[strspn(file, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS ".-")];
}

/* The name of a file below files/, at any depth */
static bool is_inside(const char *name)
{
    g_auto(GStrv) parts = g_strsplit(name, "/", -1);
    unsigned n = g_strv_length(parts);

    if (n < 2 || strcmp(parts[0], RECORDING_FILES)) {
        return false;
    }
    for (unsigned i = 1; i < n; i++) {
        if (!*parts[i] || !strcmp(parts[i], ".") || !strcmp(parts[i], "..")) {
            return false;
        }
    }
    return true;
}

static bool is_hash(const char *text)
{
    return text && strlen(text) == 64 &&
           strspn(text, "0123456789abcdef") == 64;
}

/* An image that the guest had written to when the recording begins */
static bool parse_overlay(struct recording *r, JsonObject *o, GError **error)
{
    struct recorded_file *f = g_ptr_array_index(r->files, r->files->len - 1);
    const char *name = btrail_json_string(o, "overlay");

    if (name && !is_of_ring(name)) {
        return damaged(error, r->folder, "an overlay that is not in "
                       RECORDING_RING "/");
    }
    f->overlay = g_strdup(name);
    return true;
}

static bool check_overlays(const struct recording *r, GError **error)
{
    for (unsigned i = 0; i < r->files->len; i++) {
        const struct recorded_file *f = g_ptr_array_index(r->files, i);

        if (f->overlay && !recording_find_file(r, f->overlay)) {
            return damaged(error, r->folder, "an overlay that is none of its "
                           "files");
        }
    }
    return true;
}

static bool parse_file(struct recording *r, JsonNode *node, bool ring,
                       GError **error)
{
    JsonObject *o = JSON_NODE_HOLDS_OBJECT(node) ?
                    json_node_get_object(node) : NULL;
    const char *name = o ? btrail_json_string(o, "name") : NULL;
    const char *sha256 = o ? btrail_json_string(o, "sha256") : NULL;
    gint64 size = o ? btrail_json_int(o, "size", -1) : -1;

    if (!name || size < 0 || !is_hash(sha256)) {
        return damaged(error, r->folder, "a file without name, size or hash");
    }
    if (!is_inside(name) && !(ring && is_of_ring(name))) {
        return damaged(error, r->folder, "it names a file outside of "
                       RECORDING_FILES "/");
    }
    recording_add_file(r, name, btrail_json_string(o, "source"), size,
                       sha256);
    return !ring || parse_overlay(r, o, error);
}

static bool parse_files(struct recording *r, JsonObject *o, bool ring,
                        GError **error)
{
    JsonArray *array = btrail_json_array(o, "files");
    unsigned n = array ? json_array_get_length(array) : 0;

    if (!array || n > MAX_FILES) {
        return damaged(error, r->folder, "it has no list of files");
    }
    for (unsigned i = 0; i < n; i++) {
        if (!parse_file(r, json_array_get_element(array, i), ring, error)) {
            return false;
        }
    }
    return check_overlays(r, error);
}

static bool parse_arguments(struct recording *r, JsonObject *o, GError **error)
{
    JsonArray *array = btrail_json_array(o, "arguments");
    unsigned n = array ? json_array_get_length(array) : 0;

    if (!array || n > MAX_ARGUMENTS) {
        return damaged(error, r->folder, "it has no arguments of QEMU");
    }
    r->arguments = g_new0(char *, n + 1);
    for (unsigned i = 0; i < n; i++) {
        JsonNode *node = json_array_get_element(array, i);

        if (!JSON_NODE_HOLDS_VALUE(node) ||
            json_node_get_value_type(node) != G_TYPE_STRING) {
            return damaged(error, r->folder, "an argument that is no text");
        }
        r->arguments[i] = json_node_dup_string(node);
    }
    return true;
}

static bool parse_log(struct recording *r, JsonObject *o, GError **error)
{
    JsonObject *log = btrail_json_object(o, "log");
    gint64 size = log ? btrail_json_int(log, "size", -1) : -1;
    const char *sha256 = log ? btrail_json_string(log, "sha256") : NULL;

    if (!r->complete) {
        return true;
    }
    if (size < 0 || !is_hash(sha256)) {
        return damaged(error, r->folder, "it has no size or hash of the log");
    }
    r->log.size = size;
    r->log.sha256 = g_strdup(sha256);
    return true;
}

/* The log can be read from there, and QEMU can count from there. */
static bool parse_begin(struct recording *r, JsonObject *o, GError **error)
{
    JsonObject *begin = btrail_json_object(o, "begin");
    const char *base = begin ? btrail_json_string(begin, "base") : NULL;
    gint64 offset = begin ? btrail_json_int(begin, "offset", -1) : -1;
    gint64 icount = begin ? btrail_json_int(begin, "icount", -1) : -1;
    gint64 vcpu = begin ? btrail_json_int(begin, "vcpu", -1) : -1;

    if (!base || !is_of_ring(base) || offset < 0 || icount < 0 || vcpu < 0 ||
        vcpu >= MAX_VCPUS) {
        return damaged(error, r->folder, "it does not say where it begins");
    }
    r->base = g_strdup(base);
    r->begin = (struct log_start) { offset, icount, vcpu };
    return true;
}

static bool parse_base(struct recording *r, JsonObject *o, gint64 version,
                       GError **error)
{
    if (version == VERSION_RING) {
        if (!parse_begin(r, o, error)) {
            return false;
        }
    } else if (version == VERSION_BASE) {
        r->base = g_strdup(RECORDING_BASE);
    } else if (recording_find_file(r, RECORDING_BASE)) {
        return damaged(error, r->folder,
                       "it has a base, which its version has not");
    }
    return !r->base || recording_find_file(r, r->base) ||
           damaged(error, r->folder, "it has no base");
}

static uint64_t count(JsonObject *o, const char *name)
{
    gint64 n = btrail_json_int(o, name, 0);

    return n > 0 ? n : 0;
}

static bool parse_qemu(struct recording *r, JsonObject *o, GError **error)
{
    JsonObject *qemu = btrail_json_object(o, "qemu");

    if (!qemu) {
        return damaged(error, r->folder, "it does not name its QEMU");
    }
    r->qemu = g_strdup(btrail_json_string(qemu, "path"));
    r->qemu_version = g_strdup(btrail_json_string(qemu, "version"));
    r->qemu_sha256 = g_strdup(btrail_json_string(qemu, "sha256"));
    r->icount = g_strdup(btrail_json_string(qemu, "icount"));
    if (!r->qemu || !is_hash(r->qemu_sha256) || !r->icount) {
        return damaged(error, r->folder, "it does not describe its QEMU");
    }
    /* After this come the mode and the log. */
    if (r->icount[strspn(r->icount, "abcdefghijklmnopqrstuvwxyz=,"
                                    "0123456789")] ||
        strstr(r->icount, "rr")) {
        return damaged(error, r->folder, "icount has what it must not have");
    }
    return true;
}

static bool parse_members(struct recording *r, JsonObject *o, GError **error)
{
    gint64 version = btrail_json_int(o, "version", 0);

    if (g_strcmp0(btrail_json_string(o, "format"), FORMAT)) {
        return refuse(error, r->folder, "this is not a recording; backtrail "
                      "rr record makes one");
    }
    if (version < VERSION || version > VERSION_RING) {
        return refuse(error, r->folder, "a recording of version %"
                      G_GINT64_FORMAT ", and this backtrail knows versions %d "
                      "to %d; use the one that has recorded it", version,
                      VERSION, VERSION_RING);
    }
    r->complete = btrail_json_is_true(o, "complete");
    r->created = btrail_json_int(o, "created", 0);
    r->duration_ns = count(o, "duration_ns");
    r->instructions = count(o, "instructions");
    return parse_qemu(r, o, error) && parse_arguments(r, o, error) &&
           parse_files(r, o, version == VERSION_RING, error) &&
           parse_base(r, o, version, error) &&
           parse_log(r, o, error);
}

struct recording *recording_parse(const char *folder, const char *text,
                                  GError **error)
{
    struct recording *r = recording_new(folder);
    g_autoptr(JsonNode) node = btrail_json_parse_object(text);

    if (!node) {
        damaged(error, r->folder, "it is not JSON");
    }
    if (!node || !parse_members(r, json_node_get_object(node), error)) {
        recording_free(r);
        return NULL;
    }
    return r;
}

/* Opens a regular file of the folder, which no link leads out of. */
static int open_file(const struct recording *r, const char *name,
                     struct stat *st, GError **error)
{
    g_autofree char *path = recording_path(r, name);
    g_autofree char *real = realpath(path, NULL);
    g_autofree char *top = realpath(r->folder, NULL);
    size_t len = top ? strlen(top) : 0;
    int fd;

    if (!real || !top) {
        agent_error_errno(error, path);
        g_prefix_error(error, "the recording is not whole, copy it again: ");
        return -1;
    }
    if (strncmp(real, top, len) || real[len] != '/') {
        refuse(error, r->folder, "%s leads out of the folder; a recording has "
               "all its files in it", name);
        return -1;
    }
    fd = open(real, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, st)) {
        agent_error_errno(error, path);
    } else if (!S_ISREG(st->st_mode)) {
        refuse(error, r->folder, "%s is not a file", name);
    } else {
        return fd;
    }
    if (fd >= 0) {
        close(fd);
    }
    return -1;
}

static bool check_size(const struct recording *r,
                       const struct recorded_file *f, GError **error)
{
    struct stat st;
    int fd = open_file(r, f->name, &st, error);

    if (fd < 0) {
        return false;
    }
    close(fd);
    if ((uint64_t)st.st_size != f->size) {
        return refuse(error, r->folder, "%s has %jd bytes, and had %"
                      G_GUINT64_FORMAT " when it was recorded; copy the "
                      "recording again from where it was made", f->name,
                      (intmax_t)st.st_size, f->size);
    }
    return true;
}

/*
 * A recorder that was killed leaves a log that ends with some whole event, and
 * no hash of it.  QEMU writes the head first of all.
 */
static bool check_unfinished_log(struct recording *r, GError **error)
{
    uint32_t version = 0;
    struct stat st;
    int fd = open_file(r, r->log.name, &st, error);
    ssize_t n;

    if (fd < 0) {
        return false;
    }
    n = pread(fd, &version, sizeof(version), 0);
    close(fd);
    if (n != sizeof(version) || !version) {
        return refuse(error, r->folder, "the recording was cut off: QEMU was "
                      "killed before it had begun " RECORDING_LOG
                      ", and there is nothing to be replayed; record again");
    }
    r->log.size = st.st_size;
    return true;
}

/*
 * QEMU finds by name what is in files/, also firmware that no argument names:
 * there is nothing but what the manifest has, no link above all.
 */
static bool check_folder(const struct recording *r, const char *folder,
                         unsigned depth, GError **error)
{
    g_autofree char *path = recording_path(r, folder);
    g_autoptr(GDir) dir = NULL;
    const char *name;
    struct stat st;

    if (lstat(path, &st)) {
        /* A recording that has no files */
        return !r->files->len || agent_error_errno(error, path);
    }
    if (!S_ISDIR(st.st_mode) || depth > MAX_DEPTH) {
        return refuse(error, r->folder, "%s is not a folder that a recording "
                      "has", folder);
    }
    dir = g_dir_open(path, 0, error);
    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *inside = g_build_filename(folder, name, NULL);
        g_autofree char *full = recording_path(r, inside);

        if (lstat(full, &st)) {
            return agent_error_errno(error, full);
        }
        if (S_ISDIR(st.st_mode)) {
            if (!check_folder(r, inside, depth + 1, error)) {
                return false;
            }
        } else if (!S_ISREG(st.st_mode)) {
            return refuse(error, r->folder, "%s is not a file", inside);
        } else if (!recording_find_file(r, inside)) {
            return refuse(error, r->folder, "%s is not in "
                          RECORDING_MANIFEST "; remove it", inside);
        }
    }
    return dir;
}

static bool check_sizes(struct recording *r, GError **error)
{
    for (unsigned i = 0; i < r->files->len; i++) {
        if (!check_size(r, g_ptr_array_index(r->files, i), error)) {
            return false;
        }
    }
    return check_folder(r, RECORDING_FILES, 0, error) &&
           (r->complete ? check_size(r, &r->log, error) :
            check_unfinished_log(r, error));
}

static char *read_manifest(const struct recording *probe, GError **error)
{
    g_autofree char *path = recording_path(probe, RECORDING_MANIFEST);
    g_autofree char *text = NULL;
    struct stat st;
    ssize_t n = -1;
    int fd;

    if (access(path, F_OK) && errno == ENOENT) {
        refuse(error, probe->folder, access(probe->folder, F_OK) ?
               "there is no such folder" : "this is not a recording: it has "
               "no " RECORDING_MANIFEST "; backtrail rr record makes "
               "one");
        return NULL;
    }
    fd = open_file(probe, RECORDING_MANIFEST, &st, error);
    if (fd < 0) {
        return NULL;
    }
    if (st.st_size > MAX_MANIFEST) {
        close(fd);
        damaged(error, probe->folder, "it is too long");
        return NULL;
    }
    text = g_malloc0(MAX_MANIFEST + 1);
    n = read(fd, text, MAX_MANIFEST);
    if (n < 0) {
        agent_error_errno(error, path);
    }
    close(fd);
    return n < 0 ? NULL : g_steal_pointer(&text);
}

struct recording *recording_open(const char *folder, GError **error)
{
    struct recording *r = recording_new(folder);
    g_autofree char *text = read_manifest(r, error);

    recording_free(r);
    r = text ? recording_parse(folder, text, error) : NULL;
    if (r && !check_sizes(r, error)) {
        g_clear_pointer(&r, recording_free);
    }
    return r;
}

static char *hash_fd(int fd, uint64_t *size)
{
    g_autofree uint8_t *bytes = g_malloc(HASH_PIECE);
    g_autofree char *text = g_malloc0(2 * HASH_SIZE + 1);
    uint8_t digest[HASH_SIZE];
    gnutls_hash_hd_t hash;
    uint64_t all = 0;
    ssize_t n;

    if (gnutls_hash_init(&hash, GNUTLS_DIG_SHA256)) {
        g_error("GnuTLS has no SHA-256");
    }
    while ((n = read(fd, bytes, HASH_PIECE)) > 0) {
        gnutls_hash(hash, bytes, n);
        all += n;
    }
    gnutls_hash_deinit(hash, digest);
    if (size) {
        *size = all;
    }
    for (unsigned i = 0; i < HASH_SIZE; i++) {
        sprintf(text + 2 * i, "%02x", digest[i]);
    }
    return n ? NULL : g_steal_pointer(&text);
}

char *recording_hash(const char *path, uint64_t *size, GError **error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *hash = fd < 0 ? NULL : hash_fd(fd, size);

    if (!hash) {
        agent_error_errno(error, path);
    }
    if (fd >= 0) {
        close(fd);
    }
    return hash;
}

static bool check_hash(const struct recording *r,
                       const struct recorded_file *f, GError **error)
{
    g_autofree char *hash = NULL;
    struct stat st;
    int fd = open_file(r, f->name, &st, error);

    if (fd < 0) {
        return false;
    }
    hash = hash_fd(fd, NULL);
    if (!hash) {
        agent_error_errno(error, f->name);
    }
    close(fd);
    if (hash && strcmp(hash, f->sha256)) {
        refuse(error, r->folder, "%s is not what was recorded: its SHA-256 is "
               "another one; copy the recording again from where it was made",
               f->name);
    }
    return hash && !strcmp(hash, f->sha256);
}

bool recording_check(const struct recording *r, GError **error)
{
    for (unsigned i = 0; i < r->files->len; i++) {
        if (!check_hash(r, g_ptr_array_index(r->files, i), error)) {
            return false;
        }
    }
    return !r->log.sha256 || check_hash(r, &r->log, error);
}

static JsonObject *file_json(const struct recorded_file *f)
{
    return btrail_json_new("s:name", f->name, "S:source", f->source,
                           "U:size", f->size, "S:sha256", f->sha256,
                           "S:overlay", f->overlay, NULL);
}

void recording_add_json(const struct recording *r, JsonObject *o)
{
    JsonArray *arguments = json_array_new(), *files = json_array_new();

    for (char **a = r->arguments; a && *a; a++) {
        json_array_add_string_element(arguments, *a);
    }
    for (unsigned i = 0; i < r->files->len; i++) {
        json_array_add_object_element(
            files, file_json(g_ptr_array_index(r->files, i)));
    }
    btrail_json_add(o, "a:arguments", arguments, "a:files", files, NULL);
}

/* What versions that know no more can read stays as it was. */
static unsigned version_of(const struct recording *r)
{
    if (!r->base) {
        return VERSION;
    }
    return is_of_ring(r->base) ? VERSION_RING : VERSION_BASE;
}

static JsonObject *manifest(const struct recording *r)
{
    JsonObject *o = btrail_json_new(
        "s:format", FORMAT, "u:version", version_of(r),
        "b:complete", r->complete, "U:created", r->created,
        "U:duration_ns", r->duration_ns, "U:instructions", r->instructions,
        "o:qemu", btrail_json_new(
            "s:path", r->qemu, "S:version", r->qemu_version,
            "s:sha256", r->qemu_sha256, "s:icount", r->icount, NULL), NULL);

    recording_add_json(r, o);
    if (version_of(r) == VERSION_RING) {
        btrail_json_add(o, "o:begin", btrail_json_new(
            "s:base", r->base, "U:offset", r->begin.offset,
            "U:icount", r->begin.icount, "u:vcpu", r->begin.vcpu, NULL), NULL);
    }
    if (r->complete) {
        json_object_set_object_member(o, "log", file_json(&r->log));
    }
    return o;
}

bool recording_save(const struct recording *r, GError **error)
{
    g_autoptr(JsonObject) o = manifest(r);
    g_autofree char *json = btrail_json_text(o, TRUE);
    g_autofree char *text = g_strconcat(json, "\n", NULL);
    g_autofree char *path = recording_path(r, RECORDING_MANIFEST);

    return g_file_set_contents_full(path, text, -1,
                                    G_FILE_SET_CONTENTS_CONSISTENT |
                                    G_FILE_SET_CONTENTS_DURABLE, 0600, error);
}
