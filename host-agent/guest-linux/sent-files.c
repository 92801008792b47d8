/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Images and files that a scanner has sent: see sent-files.h
 */

#include "guest-linux/file-functions.h"
#include "guest-linux/sent-files.h"
#include "guest-linux/tasks.h"
#include "util/hash.h"

#define MAX_IMAGES          64

/* Programs and libraries whose functions are looked for, and how often */
#define MAX_FILES           256
#define FILE_TRIES          32
/* Pages of them that may be read in a snapshot */
#define FILE_BUDGET         16384

/* Functions of a program or library: those that were sent last, packed */
struct file_functions {
    GBytes *sent;
    unsigned n;
    unsigned tries;
    bool done;
};

struct sent_files {
    const struct scan_output *out;
    GHashTable *images;         /* GBytes, to GBytes packed */
    GHashTable *functions;      /* struct file_functions by build-id */

    /* While a snapshot is looked through: */
    struct linux_kernel *k;
    uint64_t budget;            /* pages */
};

static void free_functions(gpointer p)
{
    struct file_functions *known = p;

    g_clear_pointer(&known->sent, g_bytes_unref);
    g_free(known);
}

struct sent_files *sent_files_new(const struct scan_output *out)
{
    struct sent_files *files = g_new0(struct sent_files, 1);

    files->out = out;
    files->images = g_hash_table_new_full(btrail_bytes_hash, g_bytes_equal,
                                          (GDestroyNotify)g_bytes_unref,
                                          (GDestroyNotify)g_bytes_unref);
    files->functions = g_hash_table_new_full(btrail_bytes_hash, g_bytes_equal,
                                             (GDestroyNotify)g_bytes_unref,
                                             free_functions);
    return files;
}

void sent_files_free(struct sent_files *files)
{
    g_hash_table_destroy(files->images);
    g_hash_table_destroy(files->functions);
    g_free(files);
}

static GBytes *send_piece(struct sent_files *files, uint16_t kind,
                          const void *data, size_t size)
{
    const struct btrail_sideband_info info = {
        .kind = kind, .size = (uint32_t)size,
    };

    return scan_output_send(files->out, &info, data);
}

static void send_image(const uint8_t *data, size_t size, void *opaque)
{
    struct sent_files *files = opaque;
    GBytes *image = g_bytes_new(data, size);

    /* A hostile guest may have a new one each time.  Packed, it can be a little
     * larger. */
    if (g_hash_table_size(files->images) < MAX_IMAGES &&
        !g_hash_table_contains(files->images, image) &&
        btrail_budget_keep(files->out->kept, size * 2)) {
        g_hash_table_insert(files->images, g_bytes_ref(image),
                            send_piece(files, BTRAIL_SIDEBAND_IMAGE, data,
                                       size));
    }
    g_bytes_unref(image);
}

/* Sends the functions of a file, if more of it is in memory than before. */
static void send_functions(const struct linux_mapped_file *file, void *opaque)
{
    struct sent_files *files = opaque;
    g_autoptr(GBytes) id = g_bytes_new(file->build_id, file->build_id_size);
    struct file_functions *known = g_hash_table_lookup(files->functions, id);
    struct linux_file read = { .k = files->k, .mapping = file->mapping,
                               .budget = files->budget };
    struct linux_functions now;

    if (!known && g_hash_table_size(files->functions) < MAX_FILES) {
        known = g_new0(struct file_functions, 1);
        g_hash_table_insert(files->functions, g_bytes_ref(id), known);
    }
    if (!known || known->done || !files->budget) {
        return;
    }
    linux_file_functions(&read, file->build_id, file->build_id_size, &now);
    files->budget = read.budget;
    known->done = now.whole || ++known->tries == FILE_TRIES;
    if (now.data && (now.n > known->n || now.whole)) {
        scan_output_keep(files->out, &known->sent,
                         send_piece(files, BTRAIL_SIDEBAND_DYNAMIC,
                                    now.data->data, now.data->len));
        known->n = now.n;
    }
    g_clear_pointer(&now.data, g_byte_array_unref);
}

void sent_files_send(struct sent_files *files, struct linux_kernel *k,
                     const struct btrail_snapshot *snapshot)
{
    files->k = k;
    files->budget = FILE_BUDGET;
    linux_vdsos(k, snapshot, send_image, files);
    linux_executed_files(snapshot, send_functions, files);
}

void sent_files_resend(struct sent_files *files)
{
    GHashTableIter iter;
    gpointer value;

    g_hash_table_iter_init(&iter, files->images);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        scan_output_resend(files->out, BTRAIL_SIDEBAND_IMAGE, 0, value);
    }
    g_hash_table_iter_init(&iter, files->functions);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        scan_output_resend(files->out, BTRAIL_SIDEBAND_DYNAMIC, 0,
                           ((const struct file_functions *)value)->sent);
    }
}
