"""Device code that reports an invalid index. device/index_errors.h explains the method."""

# The parameters of a kernel that reports invalid indices, and their types for `DeviceKernel`
PARAMETERS = "GLOBAL_MEM ga_ulong *index_slots, ga_ulong launch"
TYPES = ("*", "uint64")

# The numbers are those of device/index_errors.h. If the device has no atomic operations on 64 bits, the reported index
# may not be the first one.
SUPPORT = """
WITHIN_KERNEL void ga_wrong_index(GLOBAL_MEM ga_ulong *index_slots, ga_ulong launch, ga_size place, ga_uint array, ga_long index,
    ga_size length)
{
    GLOBAL_MEM ga_ulong *slot = index_slots + 34 * ((launch >> 24) & 31);
    const ga_long limit = (ga_long)1 << 32;
    const ga_long limited = index < -limit ? -limit : index >= limit ? limit - 1 : index;
    const ga_ulong first = place < 0x7fffffff ? place : 0x7fffffff;
    const ga_ulong key = ~(first << 33 | (ga_ulong)(limited + limit));
#ifdef GA_HAS_LONG_ATOMICS
    const ga_ulong owner = atom_cas_Lg(slot, 0, launch);
    if (owner != 0 && owner != launch)
        return;
    ga_ulong before = 0, seen = atom_cas_Lg(slot + 1, 0, key);
    while (seen != before && seen < key) {
        before = seen;
        seen = atom_cas_Lg(slot + 1, before, key);
    }
#else
    if (slot[0] != 0 && slot[0] != launch)
        return;
    slot[0] = launch;
    if (slot[1] < key)
        slot[1] = key;
#endif
    slot[2 + array] = length;
}
"""


def report(place, array, index, length):
    """Return the statement that reports an index that is out of bounds.

    Parameters
    ----------
    place : str
        An expression: the place of the index among all indices that the launch reads, array by array for each element
        of the result.
    array : int
        The number of the index array.
    index, length : str
        Expressions: the index as the user gave it, and the length of the axis.
    """
    return "ga_wrong_index(index_slots, launch, %s, %d, %s, %s);" % (place, array, index, length)
