/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Images of processes: see diff-images.h
 */

#include <string.h>

#include "analyze/diff-images.h"
#include "util/hash.h"

/* A page this far from all known pages of an image is not part of it. */
#define NEAR            (1u << 21)

/* Images of a process that are known; more are rare */
#define MAX_IMAGES      256

/**
 * struct diff_image
 * @bias:       of its addresses in memory to those of places
 * @start, @end: of what is known of it
 */
struct diff_image {
    struct module *module;
    uint64_t bias;
    uint64_t start;
    uint64_t end;
};

/* Another process can get the same page tables later. */
struct diff_space {
    uint64_t cr3;
    uint64_t pid;
};

struct diff_images {
    /* struct diff_space -> GArray of struct diff_image */
    GHashTable *spaces;
};

struct diff_images *diff_images_new(void)
{
    struct diff_images *d = g_new0(struct diff_images, 1);

    d->spaces = g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal,
                                      g_free, (GDestroyNotify)g_array_unref);
    return d;
}

void diff_images_free(struct diff_images *d)
{
    if (d) {
        g_hash_table_unref(d->spaces);
        g_free(d);
    }
}

static GArray *images_of(struct diff_images *d, const struct process *process,
                         uint64_t cr3)
{
    const struct diff_space key = {
        btrail_cr3_root(cr3), process->pid,
    };
    GArray *images = g_hash_table_lookup(d->spaces, &key);

    if (!images) {
        images = g_array_new(FALSE, FALSE, sizeof(struct diff_image));
        g_hash_table_insert(d->spaces, g_memdup2(&key, sizeof(key)), images);
    }
    return images;
}

static void note(GArray *images, uint64_t address, const struct place *place)
{
    const struct diff_image new = {
        place->function->module, address - place->address, address, address,
    };

    for (unsigned i = 0; i < images->len; i++) {
        struct diff_image *image = &g_array_index(images, struct diff_image, i);

        if (image->module == new.module && image->bias == new.bias) {
            image->start = MIN(image->start, address);
            image->end = MAX(image->end, address);
            return;
        }
    }
    if (images->len < MAX_IMAGES) {
        g_array_append_val(images, new);
    }
}

/* The image that an address is nearest to; NULL if it is near none */
static const struct diff_image *find(const GArray *images, uint64_t address)
{
    const struct diff_image *nearest = NULL;
    uint64_t least = NEAR;

    for (unsigned i = 0; i < images->len; i++) {
        const struct diff_image *image = &g_array_index(images,
                                                        struct diff_image, i);
        uint64_t distance = address < image->start ? image->start - address :
                            address > image->end ? address - image->end : 0;

        if (distance < least && address >= image->bias) {
            least = distance;
            nearest = image;
        }
    }
    return nearest;
}

void diff_images_place(struct diff_images *d, const struct process *process,
                       uint64_t cr3, uint64_t address, struct place *place,
                       struct function *function)
{
    const struct elf_symbol *symbol = NULL;
    const struct diff_image *image;
    GArray *images;

    if (address >= ADDRESS_SHARED) {
        return;
    }
    images = images_of(d, process, cr3);
    if (place->function->known ||
        strcmp(place->function->module->name, NAME_UNKNOWN)) {
        note(images, address, place);
        return;
    }
    image = find(images, address);
    if (!image) {
        return;
    }
    place->address = place->offset = address - image->bias;
    *function = (struct function) {
        .name = NAME_UNKNOWN, .module = image->module,
    };
    if (image->module->elf) {
        symbol = elf_file_symbol(image->module->elf, place->address);
    }
    if (symbol && symbol->name) {
        function->name = symbol->name;
        function->start = symbol->start;
        function->end = symbol->end;
        function->known = true;
        place->offset = place->address - symbol->start;
    }
    place->function = function;
}
