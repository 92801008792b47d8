/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: snapshot [--note ADDRESS] FILE ADDRESS OFFSET SIZE...
 *
 * Prints what Linux a guest has in its memory, of which ranges are in files,
 * as JSON; its symbols are text in it.  A character of a string is a byte, and
 * U+0100 is a NUL.
 */

#include <fcntl.h>
#include <json-glib/json-glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "guest-linux/file-functions.h"
#include "guest-linux/loaded.h"
#include "guest-linux/own-symbols.h"
#include "guest-linux/switch.h"
#include "guest-linux/tasks.h"

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void number(JsonBuilder *b, const char *name, uint64_t v)
{
    json_builder_set_member_name(b, name);
    json_builder_add_int_value(b, (gint64)v);
}

static void string(JsonBuilder *b, const char *name, const void *data,
                   size_t size)
{
    GString *escaped = g_string_new(NULL);
    size_t i;

    /* JSON strings of GLib end with a NUL. */
    for (i = 0; i < size; i++) {
        unsigned char c = ((const unsigned char *)data)[i];

        g_string_append_unichar(escaped, c ? c : 0x100);
    }
    json_builder_set_member_name(b, name);
    json_builder_add_string_value(b, escaped->str);
    g_string_free(escaped, TRUE);
}

static void hex(JsonBuilder *b, const char *name, const uint8_t *data,
                uint32_t size)
{
    g_autoptr(GString) text = g_string_new(NULL);

    for (uint32_t i = 0; i < size; i++) {
        g_string_append_printf(text, "%02x", data[i]);
    }
    string(b, name, text->str, text->len);
}

static void add_process(JsonBuilder *b, const struct btrail_process *p)
{
    uint32_t i;

    json_builder_begin_object(b);
    number(b, "pid", p->pid);
    number(b, "parent", p->parent);
    number(b, "flags", p->flags);
    number(b, "pgd", p->pgd);
    number(b, "user_pgd", p->user_pgd);
    number(b, "mm", p->mm);
    number(b, "start_time", p->start_time);
    string(b, "comm", p->comm, strlen(p->comm));
    string(b, "exe", p->exe, strlen(p->exe));
    string(b, "command_line", p->command_line, p->command_line_size);
    json_builder_set_member_name(b, "threads");
    json_builder_begin_array(b);
    for (i = 0; i < p->n_threads; i++) {
        json_builder_begin_object(b);
        number(b, "tid", p->threads[i].tid);
        number(b, "start_time", p->threads[i].start_time);
        string(b, "comm", p->threads[i].comm, strlen(p->threads[i].comm));
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
    json_builder_set_member_name(b, "mappings");
    json_builder_begin_array(b);
    for (i = 0; i < p->n_mappings; i++) {
        const struct btrail_mapping *m = &p->mappings[i];

        json_builder_begin_object(b);
        number(b, "start", m->start);
        number(b, "end", m->end);
        number(b, "offset", m->offset);
        number(b, "flags", m->flags);
        string(b, "path", m->path, strlen(m->path));
        hex(b, "build_id", m->build_id, m->build_id_size);
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
    json_builder_end_object(b);
}

static void add_vdso(const uint8_t *data, size_t size, void *opaque)
{
    char *sum = g_compute_checksum_for_data(G_CHECKSUM_SHA256, data, size);

    json_builder_add_string_value(opaque, sum);
    g_free(sum);
}

/* What is added to, and the kernel */
struct file_work {
    JsonBuilder *b;
    struct linux_kernel *kernel;
};

static void add_file(const struct linux_mapped_file *mapped, void *opaque)
{
    const struct file_work *w = opaque;
    struct linux_file file = { .k = w->kernel, .mapping = mapped->mapping,
                               .budget = 1 << 16 };
    struct linux_functions found;

    linux_file_functions(&file, mapped->build_id, mapped->build_id_size,
                         &found);
    json_builder_begin_object(w->b);
    hex(w->b, "build_id", mapped->build_id, mapped->build_id_size);
    number(w->b, "whole", found.whole);
    if (found.data) {
        hex(w->b, "functions", found.data->data, found.data->len);
        g_byte_array_unref(found.data);
    }
    json_builder_end_object(w->b);
}

static void add_switch(JsonBuilder *b, struct linux_kernel *kernel)
{
    struct btrail_tasks t;

    linux_switch(kernel, &t);
    json_builder_set_member_name(b, "switch");
    json_builder_begin_object(b);
    number(b, "switch_to", t.switch_to);
    number(b, "set_name", t.set_name);
    number(b, "current", t.current);
    number(b, "tid", t.tid);
    number(b, "pid", t.pid);
    number(b, "name", t.name);
    number(b, "task_flags", t.task_flags);
    number(b, "kernel", t.kernel);
    json_builder_end_object(b);
}

static void add_tasks(JsonBuilder *b, struct linux_kernel *kernel)
{
    struct btrail_snapshot *snapshot = linux_snapshot(kernel, now, NULL, NULL);

    number(b, "look_ns", snapshot->end - snapshot->begin);
    number(b, "flags", snapshot->flags);
    json_builder_set_member_name(b, "processes");
    json_builder_begin_array(b);
    for (uint32_t i = 0; i < snapshot->n; i++) {
        add_process(b, &snapshot->processes[i]);
    }
    json_builder_end_array(b);
    json_builder_set_member_name(b, "vdsos");
    json_builder_begin_array(b);
    linux_vdsos(kernel, snapshot, add_vdso, b);
    json_builder_end_array(b);
    json_builder_set_member_name(b, "files");
    json_builder_begin_array(b);
    linux_executed_files(snapshot, add_file,
                         &(struct file_work) { b, kernel });
    json_builder_end_array(b);
    linux_snapshot_free(snapshot);
}

static void add_text(void *opaque, const char *text, size_t size)
{
    g_string_append_len(opaque, text, (gssize)size);
}

int main(int argc, char **argv)
{
    struct guest_memory *memory = guest_memory_new();
    struct linux_kernel *kernel;
    JsonBuilder *b = json_builder_new();
    JsonGenerator *generator;
    uint64_t note = 0;
    uint64_t found, read_symbols;
    uint64_t begin = now();
    GString *symbols, *loaded;
    JsonNode *root;
    char *why;
    char *text;
    uint32_t i;
    int arg = 1;

    if (argc > 2 && !strcmp(argv[1], "--note")) {
        note = strtoull(argv[2], NULL, 0);
        arg = 3;
    }
    for (; arg + 3 < argc; arg += 4) {
        int fd = open(argv[arg], O_RDONLY | O_CLOEXEC);

        if (!guest_memory_add_file(memory, strtoull(argv[arg + 1], NULL, 0),
                                   strtoull(argv[arg + 3], NULL, 0), fd,
                                   strtoull(argv[arg + 2], NULL, 0))) {
            fprintf(stderr, "snapshot: cannot use %s\n", argv[arg]);
            return 1;
        }
    }
    kernel = linux_kernel_find(memory, note, UINT64_MAX, 0, &why);
    if (!kernel) {
        fprintf(stderr, "snapshot: %s\n", why);
        return 1;
    }
    found = now();
    linux_kernel_begin(kernel);
    symbols = g_string_new(NULL);
    linux_own_symbols(kernel, add_text, symbols);
    loaded = linux_loaded_symbols(kernel);
    if (!loaded) {
        fprintf(stderr, "snapshot: cannot read the lists of the kernel\n");
        return 1;
    }
    g_string_append_len(symbols, loaded->str, (gssize)loaded->len);
    g_string_free(loaded, TRUE);
    read_symbols = now();
    json_builder_begin_object(b);
    number(b, "find_ns", found - begin);
    number(b, "symbols_ns", read_symbols - found);
    string(b, "release", kernel->release, strlen(kernel->release));
    string(b, "symbols", symbols->str, symbols->len);
    add_switch(b, kernel);
    json_builder_set_member_name(b, "missing");
    json_builder_begin_array(b);
    for (i = 0; i < kernel->missing->len; i++) {
        json_builder_add_string_value(b, kernel->missing->pdata[i]);
    }
    json_builder_end_array(b);
    if (kernel->tasks) {
        add_tasks(b, kernel);
    }
    json_builder_end_object(b);
    generator = json_generator_new();
    root = json_builder_get_root(b);
    json_generator_set_root(generator, root);
    text = json_generator_to_data(generator, NULL);
    puts(text);

    g_free(text);
    json_node_unref(root);
    g_object_unref(generator);
    g_object_unref(b);
    g_string_free(symbols, TRUE);
    linux_kernel_free(kernel);
    guest_memory_free(memory);
    return 0;
}
