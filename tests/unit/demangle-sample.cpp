/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions of C++; demangle.c reads what names they have for people
 */

#define NOINLINE __attribute__((noinline, noclone, used))
#define INLINE __attribute__((always_inline))

namespace shop {

struct Item {
    int price;

    NOINLINE Item(int p) : price(p) { }         //= shop::Item::Item(int)
    NOINLINE ~Item() { price = 0; }             //= shop::Item::~Item()
    NOINLINE int get() const { return price; }  //= shop::Item::get() const
    //= shop::Item::operator<(shop::Item const&) const
    NOINLINE bool operator<(const Item &o) const { return price < o.price; }
};

NOINLINE int after(int n) { return n + 1; }     //= shop::after(int)
NOINLINE int after(int n, char c) { return n + c; }  //= shop::after(int, char)
//= shop::after(shop::Item const*)
NOINLINE int after(const Item *) { return 3; }

namespace {
//= shop::(anonymous namespace)::inner(double)
NOINLINE int inner(double d) { return d; }
/* It has no symbol, as it is nowhere but in others. */
inline INLINE int hidden(int n) { return n * 3; }
}

//= int shop::largest<int>(int, int)
//= char shop::largest<char>(char, char)
template <class T> NOINLINE T largest(T a, T b) { return a < b ? b : a; }

//= int shop::operator<< <long>(shop::Item const&, long)
template <class T> NOINLINE int operator<<(const Item &i, T n)
{
    return i.price << n;
}

template <class T, int n> struct Box {
    T of[n];

    //= shop::Box<short, 4>::put(short)
    NOINLINE void put(T t) { of[n - 1] = t; }
};

int all(int n);

}

//= shop::all(int)
int shop::all(int n)
{
    Item a(n), b(n + 1);
    Box<short, 4> box;
    //= shop::all(int)::{lambda(long)#1}::operator()(long) const
    auto twice = [&](long l) NOINLINE { return a.price * l; };

    box.put(n);
    return after(n) + after(n, 'x') + after(&a) + inner(n) + largest(n, 3) +
           largest('a', 'b') + (a << 3L) + twice(n) + (a < b) + a.get() +
           box.of[3] + hidden(n);
}

namespace other {
namespace {
//= other::(anonymous namespace)::inner(double)
NOINLINE int inner(double d) { return d + 1; }
inline INLINE int hidden(int n) { return n * 5; }
}

int sum(int n);

//= other::sum(int)
NOINLINE int sum(int n)
{
    auto hide = [&](int m) INLINE { return m * n; };
    auto also = [&](int m) INLINE { return m + n; };

    return inner(n) + hidden(n) + hide(n + 1) + also(n + 2);
}
}

extern "C" {
NOINLINE int plain(int n) { return n; }
NOINLINE static int local(int n) { return n + 1; }
inline INLINE int within(int n) { return n * 7; }
}

int main(int argc, char **)
{
    return shop::all(argc) + plain(argc) + local(argc) + within(argc) +
           other::sum(argc);
}
