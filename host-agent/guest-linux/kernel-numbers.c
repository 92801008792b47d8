/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Numbers of the kernels of a capture: see kernel-numbers.h
 */

#include <glib.h>
#include <string.h>

#include "guest-linux/kernel-numbers.h"

/* A kernel, which has its place in the array as its number */
struct known_kernel {
    char release[65];
    uint64_t root;
    uint64_t banner;
    uint64_t place;
    const void *owner;          /* NULL if it is nobody's */
    uint64_t *held;             /* of the owner */
};

struct kernel_numbers {
    int users;
    GMutex lock;
    GArray *kernels;            /* struct known_kernel */
};

struct kernel_numbers *kernel_numbers_new(void)
{
    struct kernel_numbers *n = g_new0(struct kernel_numbers, 1);

    n->users = 1;
    g_mutex_init(&n->lock);
    n->kernels = g_array_new(FALSE, FALSE, sizeof(struct known_kernel));
    return n;
}

struct kernel_numbers *kernel_numbers_ref(struct kernel_numbers *n)
{
    g_atomic_int_inc(&n->users);
    return n;
}

void kernel_numbers_unref(struct kernel_numbers *n)
{
    if (g_atomic_int_dec_and_test(&n->users)) {
        g_array_unref(n->kernels);
        g_mutex_clear(&n->lock);
        g_free(n);
    }
}

unsigned kernel_numbers_users(const struct kernel_numbers *n)
{
    return (unsigned)g_atomic_int_get(&n->users);
}

static struct known_kernel *get(struct kernel_numbers *n, guint i)
{
    return &g_array_index(n->kernels, struct known_kernel, i);
}

static bool is_same(const struct known_kernel *a, const struct known_kernel *b)
{
    return a->root == b->root && a->banner == b->banner &&
           a->place == b->place && !strcmp(a->release, b->release);
}

uint16_t kernel_numbers_take(struct kernel_numbers *n,
                             const struct linux_kernel *k, uint64_t place,
                             const void *owner, uint64_t *held,
                             uint64_t *before)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&n->lock);
    struct known_kernel new = {
        .root = k->root, .banner = k->banner, .place = place,
    };
    struct known_kernel *known;
    guint i = 0;

    *before = 0;
    strcpy(new.release, k->release);
    while (i < n->kernels->len && !is_same(get(n, i), &new)) {
        i++;
    }
    if (i == KERNEL_NUMBERS_MAX) {
        return 0;
    }
    if (i == n->kernels->len) {
        g_array_append_val(n->kernels, new);
    }
    known = get(n, i);
    if (known->owner && known->owner != owner) {
        *before = __atomic_exchange_n(known->held, 0, __ATOMIC_RELAXED);
    }
    known->owner = owner;
    known->held = held;
    return (uint16_t)(i + 1);
}

bool kernel_numbers_is_of(struct kernel_numbers *n, uint16_t number,
                          const void *owner)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&n->lock);

    return number && number <= n->kernels->len &&
           get(n, number - 1u)->owner == owner;
}

void kernel_numbers_leave(struct kernel_numbers *n, const void *owner)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&n->lock);

    for (guint i = 0; i < n->kernels->len; i++) {
        if (get(n, i)->owner == owner) {
            get(n, i)->owner = NULL;
        }
    }
}

char **kernel_numbers_list(struct kernel_numbers *n)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&n->lock);
    char **list = n->kernels->len ? g_new0(char *, n->kernels->len + 1) : NULL;

    for (guint i = 0; i < n->kernels->len; i++) {
        list[i] = g_strdup(get(n, i)->release);
    }
    return list;
}
