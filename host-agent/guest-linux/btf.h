/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's BTF: offsets of members of its structs
 */

#ifndef LINUX_BTF_H
#define LINUX_BTF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINUX_BTF_MAX   (64u << 20)

struct linux_btf;

/* Returns NULL if it is not BTF that can be read. */
struct linux_btf *linux_btf_new(const void *data, size_t size);
void linux_btf_free(struct linux_btf *b);

/*
 * Gets the offset of member @path ("a", or "a.b" of a struct that is a member)
 * of a struct, and its size (0 if that is not known: an array without a
 * length). Members of members without a name count as the struct's own.
 * Returns false if there is none, or it is a bit field.
 */
bool linux_btf_member(const struct linux_btf *b, const char *type,
                      const char *path, uint32_t *offset, uint32_t *size);

/* Gets the value of an enumerator. */
bool linux_btf_enumerator(const struct linux_btf *b, const char *type,
                          const char *name, int32_t *value);

#endif /* LINUX_BTF_H */
